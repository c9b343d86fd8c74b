-- A page of a queue's blocked jobs.
SELECT b.seq, b.seq, j.job, j.body
FROM tidemill_blocked b CROSS JOIN tidemill_jobs j ON j.seq = b.seq
WHERE b.queue = :queue AND b.seq > :after_seq
ORDER BY b.seq LIMIT :limit
