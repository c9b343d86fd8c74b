-- An open run without a task, so without a job that has the task's id, whatever its state.
SELECT r.id, r.queue, q.name, q.delivery, r.cursor, r.head, r.last_commit
FROM tidemill_runs r CROSS JOIN tidemill_queues q ON q.id = r.queue
WHERE r.number = ?1 AND r.status = 'running' AND NOT EXISTS (SELECT 1 FROM tidemill_jobs j WHERE j.id = r.id || '!task')
