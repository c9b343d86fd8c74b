-- Deletes a job.
DELETE FROM tidemill_jobs WHERE seq = ?1
