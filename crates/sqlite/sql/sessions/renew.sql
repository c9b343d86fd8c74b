-- Extends a session.
UPDATE tidemill_sessions SET until = ?2 WHERE id = ?1
