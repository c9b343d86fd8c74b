-- Deletes an alarm, if it exists.
DELETE FROM tidemill_alarms WHERE run = ?1 AND seq = ?2
