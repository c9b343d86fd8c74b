-- Makes those of these blocked jobs ready, or scheduled, that wait for nothing any more, with their
-- notices in their envelopes. The caller has locked their rows in an earlier statement, so that no
-- other transaction does the same.
CREATE OR REPLACE FUNCTION unblock(waiters text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    free text[];
    woken text[];
BEGIN
    free := ARRAY(
        SELECT id FROM jobs WHERE id = ANY (waiters) AND state + 0 = 1
            AND NOT EXISTS (SELECT FROM blocks WHERE job = jobs.id AND length(told) IS NULL OFFSET 0)
    );
    IF cardinality(free) = 0 THEN
        RETURN '{}';
    END IF;
    WITH word AS MATERIALIZED (
        SELECT job, string_agg(told, ','::bytea ORDER BY position) AS told
        FROM blocks WHERE job = ANY (free) GROUP BY job
    ),
    gone AS (
        DELETE FROM blocks WHERE job = ANY (free)
    ),
    back AS (
        UPDATE jobs
        SET state = 0, seq = nextval('job_seq'), due = greatest(due, now_ms()), envelope = splice(envelope, word.told)
        FROM word WHERE jobs.id = ANY (ARRAY[word.job])
        RETURNING jobs.id, jobs.queue, jobs.due, jobs.seq
    ),
    put AS (
        INSERT INTO ready (queue, due, seq, id) SELECT queue, due, seq, id FROM back
    )
    SELECT wakes(array_agg(queue), array_agg(due)) INTO woken FROM back;
    RETURN woken;
END $$;
