-- Every queue with its counts. Each count stops at the cap, so this is never a scan of everything.
SELECT q.name, q.delivery, q.paused,
    (SELECT count(*) FROM (SELECT 1 FROM waiting WHERE queue = q.id AND due <= ?1 LIMIT ?2)),
    (SELECT count(*) FROM (SELECT 1 FROM waiting WHERE queue = q.id AND due > ?1 LIMIT ?2)),
    (SELECT count(*) FROM (SELECT 1 FROM running WHERE queue = q.id LIMIT ?2)),
    (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE queue = q.id AND died IS NOT NULL LIMIT ?2))
FROM queues q ORDER BY q.name, q.delivery
