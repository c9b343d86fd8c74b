-- Puts a job into its queue's line.
INSERT INTO waiting (queue, due, seq) VALUES (?1, ?2, ?3)
