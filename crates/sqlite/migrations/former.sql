-- Migrates a file from the time when Tidemill used a file of its own, with plain table names. Rows
-- are copied instead of renaming the tables, so that the file is then like any other, down to the
-- order of its columns. Job numbers stay the same, because they are part of the tokens that workers
-- hold.

INSERT INTO tidemill_queues (id, name, delivery, paused) SELECT id, name, delivery, paused FROM queues;
INSERT INTO tidemill_jobs (seq, id, queue, due, died, body) SELECT seq, id, queue, due, died, body FROM jobs;
INSERT INTO tidemill_waiting (queue, due, seq) SELECT queue, due, seq FROM waiting;
INSERT INTO tidemill_running (seq, token, queue, until, worker, started, cancelling)
SELECT seq, token, queue, until, worker, started, cancelling FROM running;
INSERT INTO tidemill_records (job, state, error, finished, expires, output)
SELECT job, state, error, finished, expires, output FROM records;
UPDATE tidemill_fence SET token = (SELECT token FROM fence);

DROP TABLE queues;
DROP TABLE jobs;
DROP TABLE waiting;
DROP TABLE running;
DROP TABLE records;
DROP TABLE fence;

-- From now on these belong to the user.
PRAGMA application_id = 0;
PRAGMA user_version = 0;
