-- Ends claims and turns their jobs into dead letters. Leases come sorted, as in finish.sql.
--
-- $1 tokens   $2 whether only those that have run out   $3 letters
WITH freed AS (
    DELETE FROM leases USING unnest($1::bigint[], $3::bytea[]) AS held (seq, letter)
    WHERE leases.seq = held.seq AND (NOT $2 OR leases.until <= now_ms())
    RETURNING leases.id, held.*
)
UPDATE jobs SET state = 2, due = now_ms(), envelope = freed.letter
FROM freed WHERE jobs.id = freed.id
RETURNING freed.seq
