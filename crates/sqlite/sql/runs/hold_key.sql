-- The key is this run's from now on.
INSERT OR REPLACE INTO tidemill_run_keys (workflow, key, run) VALUES (?1, ?2, ?3)
