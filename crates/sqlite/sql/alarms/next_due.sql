-- When the next alarm of any run is due.
SELECT due FROM tidemill_alarms WHERE due IS NOT NULL ORDER BY due LIMIT 1
