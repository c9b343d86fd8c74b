-- A holder gives up a place in a line.
DELETE FROM tidemill_tickets WHERE session = ?1 AND holder = ?2 AND until > ?3 RETURNING kind
