-- How many sessions a worker has.
SELECT count(*) FROM tidemill_sessions WHERE member = ?1 AND until > ?2
