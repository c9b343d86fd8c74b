-- A run is not to be found any more.
DELETE FROM tidemill_run_attributes WHERE run = ?1
