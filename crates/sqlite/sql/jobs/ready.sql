-- Whether a queue has a job to give out. Reads only, so that a false alarm takes no write lock.
SELECT EXISTS (SELECT 1 FROM tidemill_waiting WHERE queue = ?1 AND due <= ?2)
