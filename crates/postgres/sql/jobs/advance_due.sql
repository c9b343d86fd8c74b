-- After the clock was set back: makes jobs due now that were due before the step. They are then
-- ordered by number. Locks the rows of `ready` as a claim does, and skips rows that a claim has
-- locked, because those jobs are being claimed.
--
-- $1 the time before the step   $2 limit
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
