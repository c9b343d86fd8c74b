-- Inserts jobs whose ids should be new. A taken id is a unique violation, and the caller falls back
-- to enqueue.sql. Takes no lock that another enqueue could wait for, except its own retry.
--
-- $1 queue   $2 ids   $3 delays in ms   $4 earliest times, 0 for none   $5 envelopes
-- $6, $7 the receipt
WITH clock AS MATERIALIZED (SELECT now_ms() AS now),
receipt AS (INSERT INTO receipts (at, call) VALUES ($6::bigint, $7::bigint)),
made AS (
    INSERT INTO jobs (id, queue, due, envelope)
    SELECT new.id, $1, greatest(clock.now + new.delay, new.at), new.envelope
    FROM clock, unnest($2::text[], $3::bigint[], $4::bigint[], $5::bytea[]) AS new (id, delay, at, envelope)
    RETURNING id, due, seq
)
INSERT INTO ready (queue, due, seq, id)
SELECT $1, due, seq, id FROM made
