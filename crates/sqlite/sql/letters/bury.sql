-- Turns a job whose lease has just been ended into a letter.
UPDATE jobs SET body = ?2, died = ?3 WHERE seq = ?1
