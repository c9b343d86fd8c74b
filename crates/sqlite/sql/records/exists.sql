-- Whether a record with this id has not expired.
SELECT EXISTS (SELECT 1 FROM tidemill_records WHERE job = ?1 AND expires > ?2)
