-- Removes one batch of receipts that no repeat asks for any more. Skips what another prune is at.
--
-- $1 at most   $2 nothing older than this is looked at   $3 how long receipts are kept, in ms
WITH gone AS (
    DELETE FROM receipts WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM receipts WHERE at >= $2 AND at < now_ms() - $3
        ORDER BY at LIMIT $1 FOR UPDATE SKIP LOCKED
    )) RETURNING at
)
SELECT count(*) AS receipts, max(at) AS last FROM gone
