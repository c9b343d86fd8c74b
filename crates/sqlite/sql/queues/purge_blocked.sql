-- Deletes a bounded number of a queue's blocked jobs.
DELETE FROM tidemill_jobs
WHERE seq IN (SELECT seq FROM tidemill_blocked WHERE queue = ?1 AND seq <= ?2 ORDER BY seq LIMIT ?3)
RETURNING seq, id, due
