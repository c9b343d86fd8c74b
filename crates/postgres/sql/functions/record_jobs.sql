-- Ends claims and keeps a record of each job in its place: the id stays taken until the record's time is over. Frees
-- those that wait for them.
--
-- Leases come sorted, so that a settle and a rescue of the same ones lock them in the same order. Whoever deletes the
-- lease owns the job; FOR UPDATE beyond that waits for whoever is beginning to wait for the job, so that the next
-- statement sees them.
CREATE OR REPLACE FUNCTION record_jobs(tokens bigint[], ids text[], expired boolean, states smallint[],
    outputs bytea[], errors bytea[], ends bigint[], keeps bigint[], OUT ended bigint[], OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    closed text[];
BEGIN
    -- Then the caller ends claims one by one, so that only one of them waits.
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
