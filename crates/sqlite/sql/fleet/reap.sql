-- Deletes expired sessions.
DELETE FROM tidemill_sessions
WHERE number IN (SELECT number FROM tidemill_sessions WHERE until <= ?1 ORDER BY until LIMIT ?2) RETURNING member
