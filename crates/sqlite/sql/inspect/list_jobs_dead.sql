-- A page of a queue's dead letters, the oldest first.
SELECT died, seq, job, body FROM tidemill_jobs
WHERE queue = ?1 AND died IS NOT NULL AND (died, seq) > (?2, ?3)
ORDER BY died, seq LIMIT ?4
