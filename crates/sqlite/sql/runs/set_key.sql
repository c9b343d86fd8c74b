-- Assigns a key to a run.
INSERT OR REPLACE INTO tidemill_run_keys (workflow, key, run) VALUES (?1, ?2, ?3)
