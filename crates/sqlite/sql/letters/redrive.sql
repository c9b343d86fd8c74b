-- Brings a letter back to life if it is still dead and still this queue's.
UPDATE tidemill_jobs SET body = ?3, due = ?4, died = NULL WHERE id = ?1 AND queue = ?2 AND died IS NOT NULL RETURNING seq
