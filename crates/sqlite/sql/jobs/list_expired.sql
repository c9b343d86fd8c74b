-- A page of expired leases of all queues, by job number, so that a cursor can follow.
SELECT r.seq, r.token, r.worker, r.started, j.job, j.body, q.name, q.delivery
FROM tidemill_running r CROSS JOIN tidemill_jobs j ON j.seq = r.seq CROSS JOIN tidemill_queues q ON q.id = r.queue
WHERE r.until <= ?1 AND r.seq > ?2
ORDER BY r.seq LIMIT ?3
