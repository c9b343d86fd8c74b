-- Removes a job whose lease has just been ended.
DELETE FROM jobs WHERE seq = ?1
