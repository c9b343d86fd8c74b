-- A job that was just unblocked, with its queue.
SELECT j.queue, q.name, q.delivery, j.due, j.body
FROM tidemill_jobs j JOIN tidemill_queues q ON q.id = j.queue WHERE j.seq = ?1
