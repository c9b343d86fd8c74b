-- Inserts jobs whose ids may be taken, and returns the ids that were not. Ids are inserted in
-- sorted order: an insert waits for another one of the same id, and two batches in opposite orders
-- would deadlock. DO NOTHING instead of DO UPDATE, which would lock rows that a settlement locks in
-- another order.
--
-- $1 queue   $2 ids   $3 delays in ms   $4 earliest times, 0 for none   $5 envelopes
-- $6, $7 the receipt
WITH clock AS MATERIALIZED (SELECT now_ms() AS now),
new AS MATERIALIZED (
    SELECT nextval('job_seq') AS seq, job.id, greatest(clock.now + job.delay, job.at) AS due, job.envelope
    FROM clock, unnest($2::text[], $3::bigint[], $4::bigint[], $5::bytea[]) AS job (id, delay, at, envelope)
),
made AS (
    INSERT INTO jobs (id, queue, seq, due, envelope)
    SELECT id, $1, seq, due, envelope FROM new ORDER BY id
    ON CONFLICT (id) DO NOTHING
    RETURNING id, due, seq
),
receipt AS (
    INSERT INTO receipts (at, call, created)
    SELECT $6::bigint, $7::bigint, coalesce(array_agg(id), '{}') FROM made
)
INSERT INTO ready (queue, due, seq, id)
SELECT $1, due, seq, id FROM made
RETURNING id
