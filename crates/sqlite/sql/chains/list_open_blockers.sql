-- The open chains that a job waits for, a bounded number.
SELECT j.id, j.seq FROM tidemill_blocks b CROSS JOIN tidemill_jobs j ON j.seq = b.blocker
WHERE b.waiter = ?1 ORDER BY b.position LIMIT 100
