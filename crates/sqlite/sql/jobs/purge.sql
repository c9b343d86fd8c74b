-- Removes a bounded number of a queue's waiting jobs and says where each waited.
DELETE FROM tidemill_jobs
WHERE seq IN (SELECT seq FROM tidemill_waiting WHERE queue = ?1 AND seq <= ?2 ORDER BY due, seq LIMIT ?3)
RETURNING seq, id, due
