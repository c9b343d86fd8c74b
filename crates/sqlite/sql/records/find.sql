-- The record of a chain, until it expires.
SELECT state, error, finished, expires, output FROM tidemill_records WHERE job = ?1 AND expires > ?2
