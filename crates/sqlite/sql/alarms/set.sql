-- Sets an alarm. It replaces one with the same number.
INSERT OR REPLACE INTO tidemill_alarms (run, seq, due, alarm) VALUES (?1, ?2, ?3, ?4)
