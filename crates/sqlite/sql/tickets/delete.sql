-- Removes a session from its line.
DELETE FROM tidemill_tickets WHERE session = ?1
