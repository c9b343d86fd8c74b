-- A write that changes nothing.
UPDATE tidemill_schema SET version = version
