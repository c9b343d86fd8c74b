-- On which member a session is, who holds it, and how.
SELECT member, holder, connected, closing FROM tidemill_sessions WHERE id = ?1 AND until > ?2
