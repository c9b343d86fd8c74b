-- The search attributes of a run.
SELECT name, value FROM tidemill_run_attributes WHERE run = ?1
