-- The latest open chain with a dedup key, if it began late enough.
SELECT begun, id FROM tidemill_jobs WHERE key = ?1 AND begun > ?2 ORDER BY begun DESC, seq DESC LIMIT 1
