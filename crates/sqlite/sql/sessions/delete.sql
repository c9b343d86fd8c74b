-- Deletes a session, whatever its holder.
DELETE FROM tidemill_sessions WHERE id = ?1
