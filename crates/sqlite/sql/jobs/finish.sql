-- Removes a job whose lease has just been ended.
DELETE FROM tidemill_jobs WHERE seq = ?1
