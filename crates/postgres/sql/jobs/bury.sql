-- Ends claims and makes their jobs dead letters. Leases are sorted, as in finish.sql. Gives up soon
-- on locks of other transactions: the caller then settles one by one, so that only the locked claim
-- waits.
--
-- $1 tokens   $2 ids   $3 whether to end only expired leases   $4 letters
WITH freed AS (
    DELETE FROM leases USING unnest($1::bigint[], $2::text[], $4::bytea[]) AS held (seq, id, letter)
    WHERE leases.seq = ANY (ARRAY[held.seq]) AND leases.id = held.id AND (NOT $3 OR leases.until <= now_ms())
        AND (SELECT set_config('lock_timeout', '1s', true)) <> ''
    RETURNING held.*
)
UPDATE jobs SET state = 2, due = now_ms(), envelope = freed.letter
FROM freed WHERE jobs.id = ANY (ARRAY[freed.id])
RETURNING freed.seq
