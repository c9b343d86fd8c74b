-- Whether a session waits for a worker of this kind.
SELECT EXISTS (SELECT 1 FROM tidemill_tickets WHERE kind = ?1 AND until > ?2)
