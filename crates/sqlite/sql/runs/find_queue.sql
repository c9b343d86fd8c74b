-- The queue of a run's tasks.
SELECT q.name, q.delivery FROM tidemill_runs r CROSS JOIN tidemill_queues q ON q.id = r.queue WHERE r.number = ?1
