-- Inserts a run. Under the same write lock, no run with its id was found.
INSERT INTO tidemill_runs
    (id, workflow, version, status, queue, started, keep, cursor, length, key, parent, parent_seq, head)
VALUES (?1, ?2, ?3, 'running', ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
