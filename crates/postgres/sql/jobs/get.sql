-- One job, wherever it is. A statement sees one moment, so exactly one of the joins finds it.
--
-- $1 id
SELECT jobs.id, queues.name, queues.delivery, jobs.state, jobs.due, jobs.finished, jobs.keep, jobs.error,
    jobs.envelope, leases.worker, leases.cancelling, jobs.due > now_ms() AS later
FROM jobs JOIN queues ON queues.number = ANY (ARRAY[jobs.queue])
    LEFT JOIN leases ON leases.seq = ANY (ARRAY[jobs.seq]) AND jobs.state = 0
WHERE jobs.id = $1 AND (jobs.state < 3 OR jobs.due > now_ms())
