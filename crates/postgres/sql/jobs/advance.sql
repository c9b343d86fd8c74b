-- Jobs that were due before the clock was set back are due; their order is that of their numbers then. Locks the rows of `ready`
-- as a claim does, and skips what a claim has locked: that job is leaving.
--
-- $1 what the clock would show   $2 at most
WITH late AS MATERIALIZED (
    SELECT ctid, id FROM ready
    WHERE queue = ANY (ARRAY(SELECT number FROM queues)) AND due > now_ms() AND due <= $1
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
moved AS (
    UPDATE ready SET due = now_ms() WHERE ctid = ANY (ARRAY(SELECT ctid FROM late)) RETURNING id
),
dated AS (
    UPDATE jobs SET due = now_ms() WHERE id = ANY (ARRAY(SELECT id FROM moved)) AND state + 0 = 0
)
SELECT count(*) AS moved FROM moved
