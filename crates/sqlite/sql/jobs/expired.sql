-- A page of a queue's leases that have run out, by the job's number so that a cursor can follow.
SELECT r.seq, r.token, r.worker, r.started, j.job, j.body
FROM tidemill_running r CROSS JOIN tidemill_jobs j ON j.seq = r.seq
WHERE r.queue = ?1 AND r.until <= ?2 AND r.seq > ?3
ORDER BY r.seq LIMIT ?4
