-- Adds jobs whose ids are promised to be new; a promise that does not hold is a unique violation, and the
-- caller falls back to enqueue.sql. Takes no lock that another enqueue could wait for.
--
-- $1 queue   $2 delivery   $3 ids   $4 delays in ms   $5 earliest times, 0 for none   $6 envelopes
WITH clock AS MATERIALIZED (SELECT now_ms() AS now),
known AS (
    INSERT INTO queues (name, delivery) VALUES ($1, $2) ON CONFLICT DO NOTHING
),
made AS (
    INSERT INTO jobs (id, queue, delivery, due, envelope)
    SELECT new.id, $1, $2, greatest(clock.now + new.delay, new.at), new.envelope
    FROM clock, unnest($3::text[], $4::bigint[], $5::bigint[], $6::bytea[]) AS new (id, delay, at, envelope)
    RETURNING id, due, seq
)
INSERT INTO ready (queue, delivery, due, seq, id)
SELECT $1, $2, due, seq, id FROM made
