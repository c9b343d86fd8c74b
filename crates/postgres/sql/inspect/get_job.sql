-- One job, whatever its state. A statement sees one snapshot, so exactly one of the joins finds it.
--
-- $1 chain   $2 how many of the chains it waits for to return
SELECT jobs.id, jobs.step, queues.name, queues.delivery, jobs.state, jobs.due, jobs.finished, jobs.keep, jobs.error,
    jobs.envelope, leases.worker, leases.cancelling, jobs.due > now_ms() AS later,
    ARRAY(SELECT chain FROM blocks WHERE job = jobs.id AND length(told) IS NULL ORDER BY position LIMIT $2) AS waits_for
FROM jobs JOIN queues ON queues.number = ANY (ARRAY[jobs.queue])
    LEFT JOIN leases ON leases.seq = ANY (ARRAY[jobs.seq]) AND jobs.state = 0
WHERE jobs.id = $1 AND (jobs.state < 3 OR jobs.due > now_ms())
