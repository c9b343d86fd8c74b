-- Makes a dead letter ready again, if it is still in this queue and the job has not died again
-- since the letter was read.
UPDATE tidemill_jobs SET body = ?3, due = ?4, died = NULL
WHERE id = ?1 AND queue = ?2 AND died IS NOT NULL AND body = ?5 RETURNING seq
