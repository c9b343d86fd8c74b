-- Makes a dead letter ready again, if it is still in this queue and the job has not died again
-- since the letter was read.
UPDATE tidemill_jobs SET body = :body, due = :due, died = NULL
WHERE id = :id AND queue = :queue AND died IS NOT NULL AND body = :letter RETURNING seq
