-- Adds jobs whose ids are promised to be new; a promise that does not hold is a unique violation, and the
-- caller falls back to enqueue.sql. Takes no lock that another enqueue could wait for.
--
-- $1 queue   $2 ids   $3 delays in ms   $4 earliest times, 0 for none   $5 envelopes
WITH clock AS MATERIALIZED (SELECT now_ms() AS now),
made AS (
    INSERT INTO jobs (id, queue, due, envelope)
    SELECT new.id, $1, greatest(clock.now + new.delay, new.at), new.envelope
    FROM clock, unnest($2::text[], $3::bigint[], $4::bigint[], $5::bytea[]) AS new (id, delay, at, envelope)
    RETURNING id, due, seq
)
INSERT INTO ready (queue, due, seq, id)
SELECT $1, due, seq, id FROM made
