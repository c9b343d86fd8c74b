-- Deletes a bounded number of expired records.
DELETE FROM tidemill_records WHERE rowid IN (SELECT rowid FROM tidemill_records WHERE expires <= ?1 ORDER BY expires LIMIT ?2)
