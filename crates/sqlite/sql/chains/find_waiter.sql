-- One of the jobs that wait for a chain.
SELECT j.job, j.seq FROM tidemill_blocks b CROSS JOIN tidemill_jobs j ON j.seq = b.waiter WHERE b.blocker = ?1 LIMIT 1
