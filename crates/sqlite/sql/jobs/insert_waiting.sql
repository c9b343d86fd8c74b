-- Inserts a job into `waiting`.
INSERT INTO tidemill_waiting (queue, due, seq) VALUES (?1, ?2, ?3)
