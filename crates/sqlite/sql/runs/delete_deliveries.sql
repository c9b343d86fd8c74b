-- Deletes the delivery ids of a run.
DELETE FROM tidemill_run_seen WHERE run = ?1
