-- Deletes one batch of waiting jobs that are not newer than the purge itself. Skips what a claim has locked:
-- those jobs are running by the time the purge returns.
--
-- $1 queue   $2 delivery   $3 newest number   $4 at most
WITH picked AS MATERIALIZED (
    SELECT ctid FROM ready WHERE queue = $1 AND delivery = $2 AND seq <= $3
    ORDER BY due, seq LIMIT $4 FOR UPDATE SKIP LOCKED
),
taken AS (
    DELETE FROM ready WHERE ctid = ANY (ARRAY(SELECT ctid FROM picked)) RETURNING id
)
DELETE FROM jobs WHERE id = ANY (ARRAY(SELECT id FROM taken))
