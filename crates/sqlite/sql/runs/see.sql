-- From now on something with this id has been delivered.
INSERT INTO tidemill_run_seen (run, id, at) VALUES (?1, ?2, ?3)
