-- A session ends, whoever holds it.
DELETE FROM tidemill_sessions WHERE id = ?1
