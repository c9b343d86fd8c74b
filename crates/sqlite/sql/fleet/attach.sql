-- A holder renews a session.
UPDATE tidemill_sessions SET holder = ?2, until = ?3, connected = ?4 WHERE id = ?1
