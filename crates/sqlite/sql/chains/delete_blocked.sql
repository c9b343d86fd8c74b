-- Deletes the blocked state of a job.
DELETE FROM tidemill_blocked WHERE seq = ?1
