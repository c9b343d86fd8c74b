-- Whether a queue has a job to claim. It only reads, so that a spurious wake-up takes no write
-- lock.
SELECT EXISTS (SELECT 1 FROM tidemill_waiting WHERE queue = ?1 AND due <= ?2)
