-- Ends claims and keeps a record of each job in its place: the id stays taken until the record's time is over.
-- Leases come sorted, as in finish.sql.
--
-- $1 tokens   $2 whether only those that have run out
-- $3 states   $4 outputs   $5 errors   $6 ends   $7 how long to keep, in ms
WITH freed AS (
    DELETE FROM leases
    USING unnest($1::bigint[], $3::smallint[], $4::bytea[], $5::bytea[], $6::bigint[], $7::bigint[])
        AS held (seq, state, output, error, finished, keep)
    WHERE leases.seq = held.seq AND (NOT $2 OR leases.until <= now_ms())
    RETURNING leases.id, held.*
)
UPDATE jobs
SET state = freed.state, envelope = freed.output, error = freed.error, finished = freed.finished,
    keep = freed.keep, due = now_ms() + freed.keep
FROM freed WHERE jobs.id = freed.id
RETURNING freed.seq
