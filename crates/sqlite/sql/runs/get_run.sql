-- Everything about a run except its attributes.
SELECT r.number, r.id, r.workflow, r.version, r.status, q.name, q.delivery, r.started, r.closed, r.cursor, r.length,
    r.key, r.parent, r.parent_seq, (SELECT min(a.due) FROM tidemill_alarms a WHERE a.run = r.number), r.output, r.error,
    r.last_commit
FROM tidemill_runs r LEFT JOIN tidemill_queues q ON q.id = r.queue
WHERE r.number = ?1
