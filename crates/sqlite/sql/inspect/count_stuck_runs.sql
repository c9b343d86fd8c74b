-- How many runs have unconsumed events and no task, among a bounded number of the oldest open runs.
SELECT count(*) FROM (SELECT number, id, cursor FROM tidemill_runs WHERE status = 'running' ORDER BY started LIMIT 10000) r
WHERE NOT EXISTS (SELECT 1 FROM tidemill_jobs j WHERE j.id = r.id || '!task')
    AND EXISTS (SELECT 1 FROM tidemill_journal e WHERE e.run = r.number AND e.position > r.cursor AND e.kind <> 'c')
