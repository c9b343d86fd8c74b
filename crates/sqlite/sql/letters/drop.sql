-- Deletes a letter for good, if it is still dead and still this queue's.
DELETE FROM tidemill_jobs WHERE id = ?1 AND queue = ?2 AND died IS NOT NULL RETURNING seq
