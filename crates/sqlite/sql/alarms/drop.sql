-- Drops an alarm, if it is there.
DELETE FROM tidemill_alarms WHERE run = ?1 AND seq = ?2
