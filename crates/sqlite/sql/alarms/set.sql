-- Sets an alarm; one with the same number makes way.
INSERT OR REPLACE INTO tidemill_alarms (run, seq, due, alarm) VALUES (?1, ?2, ?3, ?4)
