-- Makes a dead letter of a job whose lease was just deleted.
UPDATE tidemill_jobs SET body = ?2, died = ?3 WHERE seq = ?1
