-- The leases of one worker in one queue, in the order of their claims. There is no index on the
-- worker: this runs only after a failed claim, and there are only as many rows as jobs are running.
SELECT r.seq, r.token, r.started, j.job, j.body
FROM tidemill_running r CROSS JOIN tidemill_jobs j ON j.seq = r.seq
WHERE r.queue = ?1 AND r.worker = ?2
ORDER BY r.token, r.seq
