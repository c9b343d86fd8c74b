-- Ends claims and deletes their jobs. The statement that deletes the lease owns the job's row, so
-- nothing else needs a lock. Leases are sorted, so that a settle and a rescue of the same ones lock
-- them in the same order. Gives up soon on locks of other transactions: the caller then settles one
-- by one, so that only the locked claim waits.
--
-- $1 tokens   $2 ids   $3 whether to end only expired leases
WITH freed AS (
    DELETE FROM leases USING unnest($1::bigint[], $2::text[]) AS held (seq, id)
    WHERE leases.seq = ANY (ARRAY[held.seq]) AND leases.id = held.id AND (NOT $3 OR leases.until <= now_ms())
        AND (SELECT set_config('lock_timeout', '1s', true)) <> ''
    RETURNING leases.seq, leases.id
)
DELETE FROM jobs USING freed WHERE jobs.id = ANY (ARRAY[freed.id])
RETURNING freed.seq
