-- A holder says that it holds a session.
UPDATE tidemill_sessions SET holder = ?2, until = ?3, connected = ?4 WHERE id = ?1
