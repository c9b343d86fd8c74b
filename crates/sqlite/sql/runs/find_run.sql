-- The run that has a key.
--
-- ?1 workflow   ?2 key
SELECT r.id FROM tidemill_run_keys k CROSS JOIN tidemill_runs r ON r.number = k.run
WHERE k.workflow = ?1 AND k.key = ?2
