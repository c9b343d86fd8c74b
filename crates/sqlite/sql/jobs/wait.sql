-- Puts a job into its queue's line.
INSERT INTO tidemill_waiting (queue, due, seq) VALUES (?1, ?2, ?3)
