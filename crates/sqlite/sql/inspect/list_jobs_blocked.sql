-- A page of a queue's blocked jobs.
SELECT b.seq, b.seq, j.job, j.body
FROM tidemill_blocked b CROSS JOIN tidemill_jobs j ON j.seq = b.seq
WHERE b.queue = ?1 AND b.seq > ?2
ORDER BY b.seq LIMIT ?3
