-- Stores the schema version of the file.
UPDATE tidemill_schema SET version = ?1
