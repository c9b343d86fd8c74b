-- A page of a queue's leases.
SELECT r.until, r.seq, j.id, j.body, r.worker, r.cancelling
FROM running r CROSS JOIN jobs j ON j.seq = r.seq
WHERE r.queue = ?1 AND r.seq > ?2
ORDER BY r.seq LIMIT ?3
