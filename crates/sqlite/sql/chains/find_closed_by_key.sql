-- The latest closed chain with a dedup key whose record has not expired, if it began late enough.
SELECT begun, job FROM tidemill_records WHERE key = ?1 AND begun > ?2 AND expires > ?3 ORDER BY begun DESC LIMIT 1
