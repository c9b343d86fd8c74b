-- Every queue with its counts. Each count stops at the cap: beyond it, counting would be a scan.
-- Leases of all queues are counted in one pass, because there is no index of leases by queue.
--
-- $1 cap
SELECT name, delivery, paused,
    (SELECT count(*) FROM (SELECT FROM ready
        WHERE queue = number AND due <= now_ms() LIMIT $1) AS c) AS ready,
    (SELECT count(*) FROM (SELECT FROM ready
        WHERE queue = number AND due > now_ms() LIMIT $1) AS c) AS scheduled,
    (SELECT count(*) FROM (SELECT FROM jobs
        WHERE queue = number AND state = 1 LIMIT $1) AS c) AS blocked,
    coalesce(running.jobs, 0) AS running,
    (SELECT count(*) FROM (SELECT FROM jobs
        WHERE queue = number AND state = 2 LIMIT $1) AS c) AS dead
FROM queues LEFT JOIN (
    SELECT queue, count(*) AS jobs FROM (SELECT queue FROM leases LIMIT $1) AS counted GROUP BY queue
) AS running ON running.queue = ANY (ARRAY[number])
ORDER BY name, delivery
