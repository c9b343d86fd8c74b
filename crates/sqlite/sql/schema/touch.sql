-- Writes, but changes nothing.
UPDATE tidemill_schema SET version = version
