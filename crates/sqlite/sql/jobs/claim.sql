-- The first due jobs of a queue, the oldest first. The write lock is held, so no other connection
-- sees these rows before `delete_waiting_up_to.sql` deletes them. CROSS JOIN keeps `waiting` the
-- outer loop whatever the statistics are: the cost depends on the jobs claimed, not on the jobs
-- waiting.
SELECT w.due, w.seq, j.job, j.body
FROM tidemill_waiting w CROSS JOIN tidemill_jobs j ON j.seq = w.seq
WHERE w.queue = ?1 AND w.due <= ?2
ORDER BY w.due, w.seq LIMIT ?3
