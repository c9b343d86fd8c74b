-- Whether the file contains our tables. It only reads.
SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'tidemill_schema')
