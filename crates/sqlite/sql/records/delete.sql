-- Deletes the record of a chain.
DELETE FROM tidemill_records WHERE job = ?1
