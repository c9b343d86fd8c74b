-- How many alarms could not be parsed.
SELECT count(*) FROM tidemill_alarms WHERE due IS NULL
