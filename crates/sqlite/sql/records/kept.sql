-- Whether a record holds this id.
SELECT EXISTS (SELECT 1 FROM records WHERE job = ?1 AND expires > ?2)
