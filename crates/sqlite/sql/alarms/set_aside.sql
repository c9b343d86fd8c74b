-- An alarm that says nothing we know: it stays, for somebody to look at, but is not due any more.
UPDATE tidemill_alarms SET due = NULL WHERE run = ?1 AND seq = ?2
