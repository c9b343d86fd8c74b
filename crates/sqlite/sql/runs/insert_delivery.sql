-- Stores the id of a delivered event.
INSERT INTO tidemill_run_seen (run, id, at) VALUES (?1, ?2, ?3)
