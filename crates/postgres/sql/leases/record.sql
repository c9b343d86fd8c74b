-- Ends claims and keeps a record of each job in its place: the id stays taken until the record's time is over.
-- Leases come sorted, as in finish.sql.
--
-- $1 tokens   $2 ids   $3 whether only those that have run out
-- $4 states   $5 outputs   $6 errors   $7 ends   $8 how long to keep, in ms
WITH freed AS (
    DELETE FROM leases
    USING unnest($1::bigint[], $2::text[], $4::smallint[], $5::bytea[], $6::bytea[], $7::bigint[], $8::bigint[])
        AS held (seq, id, state, output, error, finished, keep)
    WHERE leases.seq = ANY (ARRAY[held.seq]) AND leases.id = held.id AND (NOT $3 OR leases.until <= now_ms())
    RETURNING held.*
)
UPDATE jobs
SET state = freed.state, envelope = freed.output, error = freed.error, finished = freed.finished,
    keep = freed.keep, due = now_ms() + freed.keep
FROM freed WHERE jobs.id = ANY (ARRAY[freed.id])
RETURNING freed.seq
