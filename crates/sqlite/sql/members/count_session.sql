-- Counts one more session in the lifetime of a worker. Returns whether that was its last.
UPDATE tidemill_members SET lifetime = lifetime + 1 WHERE id = ?1
RETURNING most > 0 AND lifetime >= most
