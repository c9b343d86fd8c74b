-- How many sessions wait in a line before this number, and how many in all except this session.
SELECT count(*) FILTER (WHERE number < ?5), count(*) FROM tidemill_tickets
WHERE kind = ?1 AND offer = ?2 AND until > ?3 AND session <> ?4
