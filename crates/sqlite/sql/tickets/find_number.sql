-- The number of a session in a line.
SELECT number FROM tidemill_tickets WHERE session = ?1 AND kind = ?2 AND offer = ?3 AND until > ?4
