-- Ends claims and keeps a record in the row of each job: the id stays taken until the record
-- expires. Unblocks the jobs that wait for them.
--
-- Leases are sorted, so that a settle and a rescue of the same ones lock them in the same order.
-- The transaction that deletes the lease owns the job. FOR UPDATE in addition waits for
-- transactions in which jobs begin to wait for it, so that the next statement sees them.
CREATE OR REPLACE FUNCTION record_jobs(tokens bigint[], ids text[], expired boolean, states smallint[],
    outputs bytea[], errors bytea[], ends bigint[], keeps bigint[], OUT ended bigint[], OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    closed text[];
BEGIN
    -- After a timeout the caller ends claims one by one, so that only the locked one waits.
    PERFORM set_config('lock_timeout', '1s', true);
    WITH freed AS (
        DELETE FROM leases USING unnest(tokens, ids, states, outputs, errors, ends, keeps)
            AS held (seq, id, state, output, error, finished, keep)
        WHERE leases.seq = ANY (ARRAY[held.seq]) AND leases.id = held.id
            AND (NOT expired OR leases.until <= now_ms())
        RETURNING held.*
    ),
    locked AS (
        SELECT freed.* FROM (SELECT * FROM freed ORDER BY id COLLATE "C") AS freed
            JOIN jobs ON jobs.id = ANY (ARRAY[freed.id])
        FOR UPDATE OF jobs
    ),
    closed AS (
        UPDATE jobs
        SET state = locked.state, envelope = locked.output, error = locked.error, finished = locked.finished,
            keep = locked.keep, due = now_ms() + locked.keep
        FROM locked WHERE jobs.id = ANY (ARRAY[locked.id])
        RETURNING locked.seq, jobs.id
    )
    SELECT array_agg(seq), array_agg(id) INTO ended, closed FROM closed;
    woken := '{}';
    IF closed IS NOT NULL AND awaited(closed) THEN
        woken := release(array_agg(id), array_agg(seq), array_agg(told(id, state, envelope)))
            FROM jobs WHERE id = ANY (closed);
    END IF;
END $$;
