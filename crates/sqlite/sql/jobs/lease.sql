-- Leases a job. The primary key keeps a second lease of the same job out.
INSERT INTO running (seq, token, queue, until, worker, started) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
