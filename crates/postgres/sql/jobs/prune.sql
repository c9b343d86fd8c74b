-- Removes one batch of records whose time is over, with their keys. Skips what another prune has locked; keys are
-- deleted in their own order, in which an enqueue locks them.
--
-- $1 at most
WITH gone AS (
    DELETE FROM jobs WHERE id = ANY (ARRAY(
        SELECT id FROM jobs WHERE state IN (3, 4) AND due <= now_ms()
        ORDER BY due LIMIT $1 FOR UPDATE SKIP LOCKED
    )) RETURNING id, key
),
freed AS (
    DELETE FROM keys USING (SELECT key, id FROM gone WHERE key IS NOT NULL ORDER BY key) AS gone
    WHERE keys.key = ANY (ARRAY[gone.key]) AND keys.id = gone.id
)
SELECT count(*) AS records FROM gone
