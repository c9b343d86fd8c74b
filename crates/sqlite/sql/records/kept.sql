-- Whether a record holds this id.
SELECT EXISTS (SELECT 1 FROM tidemill_records WHERE job = ?1 AND expires > ?2)
