-- Leases a queue's waiting jobs up to the last claimed one, in one statement. Jobs up to the last
-- one that starts at once count as started. The primary key prevents a second lease of the same
-- job.
INSERT INTO tidemill_running (seq, token, queue, until, worker, started)
SELECT seq, ?4, queue, ?5, ?6, (due, seq) <= (?7, ?8) FROM tidemill_waiting
WHERE queue = ?1 AND (due, seq) <= (?2, ?3)
