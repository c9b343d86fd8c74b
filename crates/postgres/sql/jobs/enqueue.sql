-- Adds jobs whose ids may be taken; returns those that were not. Ids are inserted in their own order, because
-- an insert waits for another one of the same id, and two batches in opposite orders would wait for each
-- other. DO NOTHING and not DO UPDATE, which would lock rows that a settlement locks in another order.
--
-- $1 queue   $2 delivery   $3 ids   $4 delays in ms   $5 earliest times, 0 for none   $6 envelopes
WITH clock AS MATERIALIZED (SELECT now_ms() AS now),
known AS (
    INSERT INTO queues (name, delivery) VALUES ($1, $2) ON CONFLICT DO NOTHING
),
new AS MATERIALIZED (
    SELECT nextval('job_seq') AS seq, job.id, greatest(clock.now + job.delay, job.at) AS due, job.envelope
    FROM clock, unnest($3::text[], $4::bigint[], $5::bigint[], $6::bytea[]) AS job (id, delay, at, envelope)
),
made AS (
    INSERT INTO jobs (id, queue, delivery, seq, due, envelope)
    SELECT id, $1, $2, seq, due, envelope FROM new ORDER BY id
    ON CONFLICT (id) DO NOTHING
    RETURNING id, due, seq
)
INSERT INTO ready (queue, delivery, due, seq, id)
SELECT $1, $2, due, seq, id FROM made
RETURNING id
