-- Whether the file holds our tables. Reads only.
SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'tidemill_schema')
