-- A page of a queue's dead letters, the oldest first.
SELECT died, seq, job, body FROM tidemill_jobs
WHERE queue = :queue AND died IS NOT NULL AND (died, seq) > (:after_due, :after_seq)
ORDER BY died, seq LIMIT :limit
