-- What a run can be found by.
SELECT name, value FROM tidemill_run_attributes WHERE run = ?1
