-- How many alarms nobody could read.
SELECT count(*) FROM tidemill_alarms WHERE due IS NULL
