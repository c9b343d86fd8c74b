-- Sets a search attribute of a run.
INSERT OR REPLACE INTO tidemill_run_attributes (run, name, value, started)
SELECT number, ?2, ?3, started FROM tidemill_runs WHERE number = ?1
