-- Whether a worker has a slot for one more session, whatever its lifetime.
SELECT (SELECT count(*) FROM tidemill_sessions WHERE member = ?1 AND until > ?2) < concurrent
FROM tidemill_members WHERE id = ?1
