-- One job by the id of its chain, whatever its state.
SELECT j.seq, j.queue, q.name, q.delivery, j.job, j.due, j.died, r.until, r.worker, r.cancelling, b.open, j.body
FROM tidemill_jobs j
LEFT JOIN tidemill_running r ON r.seq = j.seq
LEFT JOIN tidemill_blocked b ON b.seq = j.seq
LEFT JOIN tidemill_queues q ON q.id = j.queue
WHERE j.id = ?1
