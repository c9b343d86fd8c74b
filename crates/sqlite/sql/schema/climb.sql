-- The file has been through this many steps.
UPDATE tidemill_schema SET version = ?1
