-- Deletes the ticket of a session, if this holder has it.
DELETE FROM tidemill_tickets WHERE session = ?1 AND holder = ?2 AND until > ?3 RETURNING kind
