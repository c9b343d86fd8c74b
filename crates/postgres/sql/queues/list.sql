-- Every queue with its counts. Each count stops at the cap: beyond it, counting would be a scan.
--
-- $1 cap
SELECT name, delivery, paused,
    (SELECT count(*) FROM (SELECT FROM ready
        WHERE queue = number AND due <= now_ms() LIMIT $1) AS c) AS ready,
    (SELECT count(*) FROM (SELECT FROM ready
        WHERE queue = number AND due > now_ms() LIMIT $1) AS c) AS scheduled,
    (SELECT count(*) FROM (SELECT FROM jobs
        WHERE queue = number AND state = 1 LIMIT $1) AS c) AS blocked,
    (SELECT count(*) FROM (SELECT FROM leases
        WHERE queue = number LIMIT $1) AS c) AS running,
    (SELECT count(*) FROM (SELECT FROM jobs
        WHERE queue = number AND state = 2 LIMIT $1) AS c) AS dead
FROM queues ORDER BY name, delivery
