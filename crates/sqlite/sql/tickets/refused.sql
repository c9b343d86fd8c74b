-- What those refuse who wait in a line before this place, from the first on. Read as far as needed only:
-- most often the first refuses nothing, and that is the end of it.
SELECT refused FROM tidemill_tickets
WHERE kind = ?1 AND offer = ?2 AND until > ?3 AND session <> ?4 AND number < ?5
ORDER BY number
