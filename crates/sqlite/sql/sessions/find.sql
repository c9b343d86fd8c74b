-- The worker, the holder and the state of a session.
SELECT member, holder, connected, closing FROM tidemill_sessions WHERE id = ?1 AND until > ?2
