-- One job by its id, wherever it is.
SELECT j.seq, j.due, j.died, q.name, q.delivery, r.until, r.worker, r.cancelling, j.queue, j.body
FROM tidemill_jobs j LEFT JOIN tidemill_running r ON r.seq = j.seq LEFT JOIN tidemill_queues q ON q.id = j.queue
WHERE j.id = ?1
