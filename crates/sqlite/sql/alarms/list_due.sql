-- A bounded number of due alarms, the oldest first.
SELECT run, seq, alarm FROM tidemill_alarms WHERE due <= ?1 ORDER BY due, run, seq LIMIT ?2
