-- Deletes a session, if this holder has it. An expired one is left to `sessions/reap.sql`, which
-- counts it.
DELETE FROM tidemill_sessions WHERE id = ?1 AND holder = ?2 AND until > ?3 RETURNING member
