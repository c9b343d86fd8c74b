-- Stores the envelope and the due time of a job's next attempt, and returns its queue.
UPDATE tidemill_jobs SET body = ?2, due = ?3 WHERE seq = ?1 RETURNING queue
