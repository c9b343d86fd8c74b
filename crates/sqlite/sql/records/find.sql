-- How a job ended, while that is kept.
SELECT state, error, finished, expires, output FROM tidemill_records WHERE job = ?1 AND expires > ?2
