-- Deletes one batch of expired records, with their dedup keys. One prune runs at a time: another
-- does nothing. Keys are deleted in sorted order, in which an enqueue locks them.
--
-- $1 limit   $2 the expiry from which to search
WITH turn AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(hashtextextended('tidemill prune ' || current_schema(), 0)) AS is_mine
),
gone AS (
    DELETE FROM jobs WHERE id = ANY (ARRAY(
        SELECT id FROM jobs WHERE state IN (3, 4) AND due >= $2 AND due <= now_ms() AND (SELECT is_mine FROM turn)
        ORDER BY due LIMIT $1 FOR UPDATE SKIP LOCKED
    )) RETURNING id, key, due
),
freed AS (
    DELETE FROM keys USING (SELECT key, id FROM gone WHERE key IS NOT NULL ORDER BY key) AS gone
    WHERE keys.key = ANY (ARRAY[gone.key]) AND keys.id = gone.id
)
SELECT count(*) AS records, max(due) AS last FROM gone
