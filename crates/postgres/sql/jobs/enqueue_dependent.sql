-- Inserts jobs that depend on other chains. functions/enqueue_jobs.sql documents the locks.
--
-- $1 queue   $2 ids   $3 delays in ms   $4 earliest times, 0 for none   $5 envelopes
-- $6 keys, or none at all   $7 whether closed chains count   $8 windows in ms
-- $9 index of the waiting job   $10 the chain   $11, $12 the receipt
WITH done AS MATERIALIZED (SELECT made, others FROM enqueue_jobs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)),
receipt AS (
    INSERT INTO receipts (at, call, made, others) SELECT $11::bigint, $12::bigint, made, others FROM done
)
SELECT made, others FROM done
