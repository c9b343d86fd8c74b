-- Deletes the search attributes of a run.
DELETE FROM tidemill_run_attributes WHERE run = ?1
