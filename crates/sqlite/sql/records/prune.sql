-- Removes a bounded number of records whose time is over.
DELETE FROM records WHERE rowid IN (SELECT rowid FROM records WHERE expires <= ?1 ORDER BY expires LIMIT ?2)
