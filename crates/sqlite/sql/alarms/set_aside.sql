-- Clears the due time of an alarm that cannot be parsed. The row stays for an operator to inspect.
UPDATE tidemill_alarms SET due = NULL WHERE run = ?1 AND seq = ?2
