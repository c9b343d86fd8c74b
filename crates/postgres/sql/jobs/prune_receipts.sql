-- Deletes one batch of receipts that no retry needs any more. Skips rows that another prune has
-- locked.
--
-- $1 limit   $2 the time from which to search   $3 retention of receipts in ms
WITH gone AS (
    DELETE FROM receipts WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM receipts WHERE at >= $2 AND at < now_ms() - $3
        ORDER BY at LIMIT $1 FOR UPDATE SKIP LOCKED
    )) RETURNING at
)
SELECT count(*) AS receipts, max(at) AS last FROM gone
