-- Adds a job's bytes. The unique id decides between two callers; the loser changes nothing.
INSERT INTO tidemill_jobs (id, queue, due, body) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (id) DO NOTHING
