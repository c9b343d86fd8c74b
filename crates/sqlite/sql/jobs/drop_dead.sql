-- Deletes a dead letter, if it is still dead and still in this queue.
DELETE FROM tidemill_jobs WHERE id = ?1 AND queue = ?2 AND died IS NOT NULL RETURNING seq
