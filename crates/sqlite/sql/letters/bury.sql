-- Turns a job whose lease has just been ended into a letter.
UPDATE tidemill_jobs SET body = ?2, died = ?3 WHERE seq = ?1
