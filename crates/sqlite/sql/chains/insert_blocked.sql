-- Makes a job wait for this many open chains.
INSERT INTO tidemill_blocked (seq, queue, open) VALUES (?1, ?2, ?3)
