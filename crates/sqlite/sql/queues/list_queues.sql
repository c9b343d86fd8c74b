-- Every queue with its counts. Each count stops at the cap, so this never scans everything.
SELECT q.name, q.delivery, q.paused,
    (SELECT count(*) FROM (SELECT 1 FROM tidemill_waiting WHERE queue = q.id AND due <= ?1 LIMIT ?2)),
    (SELECT count(*) FROM (SELECT 1 FROM tidemill_waiting WHERE queue = q.id AND due > ?1 LIMIT ?2)),
    (SELECT count(*) FROM (SELECT 1 FROM tidemill_blocked WHERE queue = q.id LIMIT ?2)),
    (SELECT count(*) FROM (SELECT 1 FROM tidemill_running WHERE queue = q.id LIMIT ?2)),
    (SELECT count(*) FROM (SELECT 1 FROM tidemill_jobs WHERE queue = q.id AND died IS NOT NULL LIMIT ?2))
FROM tidemill_queues q ORDER BY q.name, q.delivery
