-- A bounded number of alarms whose time has come, the oldest first.
SELECT run, seq, alarm FROM tidemill_alarms WHERE due <= ?1 ORDER BY due, run, seq LIMIT ?2
