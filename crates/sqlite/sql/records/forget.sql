-- Removes how a chain ended.
DELETE FROM tidemill_records WHERE job = ?1
