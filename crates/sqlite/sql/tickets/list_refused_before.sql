-- The workers that sessions before this number reject, in order. The caller stops reading early:
-- mostly the first session rejects none, and that decides.
SELECT refused FROM tidemill_tickets
WHERE kind = ?1 AND offer = ?2 AND until > ?3 AND session <> ?4 AND number < ?5
ORDER BY number
