-- Deletes all alarms of a run.
DELETE FROM tidemill_alarms WHERE run = ?1
