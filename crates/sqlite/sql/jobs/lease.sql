-- Leases the front of the line up to the last job claimed, in one statement; the jobs up to the last one that
-- starts count as started. The primary key keeps a second lease of the same job out.
INSERT INTO tidemill_running (seq, token, queue, until, worker, started)
SELECT seq, ?4, queue, ?5, ?6, (due, seq) <= (?7, ?8) FROM tidemill_waiting
WHERE queue = ?1 AND (due, seq) <= (?2, ?3)
