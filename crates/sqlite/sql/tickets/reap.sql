-- Deletes expired tickets.
DELETE FROM tidemill_tickets
WHERE number IN (SELECT number FROM tidemill_tickets WHERE until <= ?1 ORDER BY until LIMIT ?2) RETURNING kind
