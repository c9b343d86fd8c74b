-- Extends the ticket of a session that still waits.
UPDATE tidemill_tickets SET holder = ?2, until = ?3, refused = ?4 WHERE session = ?1
