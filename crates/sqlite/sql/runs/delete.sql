-- Deletes a run.
DELETE FROM tidemill_runs WHERE number = ?1
