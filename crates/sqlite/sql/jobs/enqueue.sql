-- Inserts a job. The unique id decides between two callers: the second changes nothing.
INSERT INTO tidemill_jobs (id, step, queue, due, key, begun, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (id) DO NOTHING
