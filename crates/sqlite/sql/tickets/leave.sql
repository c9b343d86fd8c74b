-- A session waits no more.
DELETE FROM tidemill_tickets WHERE session = ?1
