-- Ends claims and puts their jobs back with a new envelope and a new number. A job that is to be
-- cancelled is left to drop_cancelled.sql. Leases are sorted, as in finish.sql. Gives up soon on
-- locks of other transactions: the caller then settles one by one, so that only the locked claim
-- waits.
--
-- $1 tokens   $2 ids   $3 whether to end only expired leases   $4 delays in ms   $5 envelopes
WITH freed AS (
    DELETE FROM leases
    USING unnest($1::bigint[], $2::text[], $4::bigint[], $5::bytea[]) AS held (seq, id, delay, envelope)
    WHERE leases.seq = ANY (ARRAY[held.seq]) AND leases.id = held.id AND (NOT $3 OR leases.until <= now_ms())
        AND (SELECT set_config('lock_timeout', '1s', true)) <> ''
        AND NOT leases.cancelling
    RETURNING held.*
),
again AS (
    UPDATE jobs SET seq = nextval('job_seq'), due = now_ms() + freed.delay, envelope = freed.envelope
    FROM freed WHERE jobs.id = ANY (ARRAY[freed.id])
    RETURNING freed.seq AS token, jobs.queue, jobs.due, jobs.seq, jobs.id
),
put AS (
    INSERT INTO ready (queue, due, seq, id) SELECT queue, due, seq, id FROM again
)
SELECT token FROM again
