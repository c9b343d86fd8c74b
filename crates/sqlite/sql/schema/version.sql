-- The schema version of the file.
SELECT version FROM tidemill_schema
