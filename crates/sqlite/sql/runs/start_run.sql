-- Inserts a run. Under the same write lock, no run with its id was found.
INSERT INTO tidemill_runs
    (id, workflow, version, status, queue, started, keep, cursor, length, key, parent, parent_seq, head)
VALUES (:id, :workflow, :version, 'running', :queue, :started, :keep, :cursor, :length, :key, :parent, :parent_seq, :head)
