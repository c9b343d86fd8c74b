-- Deletes a run's key, unless it belongs to another run by now.
DELETE FROM tidemill_run_keys
WHERE (workflow, key) = (SELECT workflow, key FROM tidemill_runs WHERE number = ?1) AND run = ?1
