-- Deletes one batch of waiting jobs that are not newer than the purge itself, and says where it ended: the next
-- batch starts there instead of passing what is already deleted. Skips what a claim has locked: those jobs are
-- running by the time the purge returns.
--
-- $1 queue   $2 newest number   $3 at most   $4 and $5 where the batch before ended
WITH picked AS MATERIALIZED (
    SELECT ctid, due, seq FROM ready WHERE queue = $1 AND seq <= $2 AND (due, seq) > ($4, $5)
    ORDER BY due, seq LIMIT $3 FOR UPDATE SKIP LOCKED
),
taken AS (
    DELETE FROM ready WHERE ctid = ANY (ARRAY(SELECT ctid FROM picked)) RETURNING id
),
gone AS (
    DELETE FROM jobs WHERE id = ANY (ARRAY(SELECT id FROM taken))
)
SELECT count(*) OVER () AS deleted, due, seq FROM picked ORDER BY due DESC, seq DESC LIMIT 1
