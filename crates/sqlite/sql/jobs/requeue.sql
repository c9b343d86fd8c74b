-- Gives a job its next attempt's bytes and time, and says where it waits.
UPDATE tidemill_jobs SET body = ?2, due = ?3 WHERE seq = ?1 RETURNING queue
