-- The front of a queue's line, oldest first. The write lock is already held, so nobody else sees these rows
-- before `take.sql` has removed them. CROSS JOIN keeps the line outermost whatever the statistics say: the
-- cost is that of the jobs taken, not of the jobs waiting.
SELECT w.due, w.seq, j.job, j.body
FROM tidemill_waiting w CROSS JOIN tidemill_jobs j ON j.seq = w.seq
WHERE w.queue = ?1 AND w.due <= ?2
ORDER BY w.due, w.seq LIMIT ?3
