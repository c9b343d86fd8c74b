-- Every queue with its counts. Each count stops at the cap: beyond it, counting would be a scan.
--
-- $1 cap
SELECT name, delivery, paused,
    (SELECT count(*) FROM (SELECT FROM ready
        WHERE ready.queue = name AND ready.delivery = queues.delivery AND due <= now_ms() LIMIT $1) AS c) AS ready,
    (SELECT count(*) FROM (SELECT FROM ready
        WHERE ready.queue = name AND ready.delivery = queues.delivery AND due > now_ms() LIMIT $1) AS c) AS scheduled,
    (SELECT count(*) FROM (SELECT FROM leases
        WHERE leases.queue = name AND leases.delivery = queues.delivery LIMIT $1) AS c) AS running,
    (SELECT count(*) FROM (SELECT FROM jobs
        WHERE jobs.queue = name AND jobs.delivery = queues.delivery AND state = 2 LIMIT $1) AS c) AS dead
FROM queues ORDER BY name, delivery
