-- A page of a queue's running jobs.
SELECT r.until, r.seq, j.job, j.body, r.worker, r.cancelling
FROM tidemill_running r CROSS JOIN tidemill_jobs j ON j.seq = r.seq
WHERE r.queue = :queue AND r.seq > :after_seq
ORDER BY r.seq LIMIT :limit
