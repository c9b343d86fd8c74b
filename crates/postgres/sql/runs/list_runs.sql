-- A page of runs, and in each row where the page ended; one row without a run if the page is empty.
--
-- $1 type   $2 status   $3 since   $4 attribute   $5 its value
-- $6 and $7 the end of the previous page   $8 limit
SELECT page.last_started, page.last_id, run.*
FROM list_runs($1, $2, $3, $4, $5, $6, $7, $8) AS page
    LEFT JOIN LATERAL unnest(page.ids) WITH ORDINALITY AS found (id, place) ON true
    LEFT JOIN LATERAL (
        SELECT runs.id, runs.workflow, runs.version, runs.status, runs.cursor, runs.length, runs.started, runs.closed,
            runs.key, runs.parent, runs.parent_seq, runs.output, runs.error, runs.last_commit, queues.name, queues.delivery,
            (SELECT min(due + 0) FROM alarms WHERE run = runs.id) AS next_alarm,
            ARRAY(SELECT attributes.name FROM attributes WHERE run = runs.id ORDER BY attributes.name || '') AS attributes,
            ARRAY(SELECT value FROM attributes WHERE run = runs.id ORDER BY attributes.name || '') AS "values"
        FROM runs JOIN queues ON queues.number = ANY (ARRAY[runs.queue])
        WHERE runs.id = found.id OFFSET 0
    ) AS run ON true
ORDER BY found.place
