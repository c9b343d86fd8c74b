-- One run. It exists until it is pruned, as its journal does.
--
-- $1 id
SELECT runs.id, runs.workflow, runs.version, runs.status, runs.cursor, runs.length, runs.started, runs.closed, runs.key,
    runs.parent, runs.parent_seq, runs.output, runs.error, runs.last_commit, queues.name, queues.delivery,
    (SELECT min(due + 0) FROM alarms WHERE run = runs.id) AS next_alarm,
    ARRAY(SELECT attributes.name FROM attributes WHERE run = runs.id ORDER BY attributes.name || '') AS attributes,
    ARRAY(SELECT value FROM attributes WHERE run = runs.id ORDER BY attributes.name || '') AS "values"
FROM runs JOIN queues ON queues.number = ANY (ARRAY[runs.queue])
WHERE runs.id = $1
