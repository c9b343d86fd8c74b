-- A file as it was when Tidemill had one of its own.

CREATE TABLE queues (
    id       INTEGER PRIMARY KEY,
    name     TEXT    NOT NULL,
    delivery TEXT    NOT NULL,
    paused   INTEGER NOT NULL DEFAULT 0,
    UNIQUE (name, delivery)
) STRICT;

-- `due` repeats what is in `waiting`, because a job that is looked up by its id must be found there.
-- The bytes come last: reading the columns before them never touches an overflow page.
CREATE TABLE jobs (
    seq   INTEGER PRIMARY KEY,
    id    TEXT    NOT NULL UNIQUE,
    queue INTEGER NOT NULL,
    due   INTEGER NOT NULL,
    died  INTEGER,
    body  BLOB    NOT NULL
) STRICT;

CREATE INDEX letters ON jobs (queue, died, seq) WHERE died IS NOT NULL;

-- Scheduled and ready jobs in the order they are claimed. The key is the whole row: claiming reads and
-- deletes from the front of a queue's range, however long the range is.
CREATE TABLE waiting (
    queue INTEGER NOT NULL,
    due   INTEGER NOT NULL,
    seq   INTEGER NOT NULL,
    PRIMARY KEY (queue, due, seq)
) STRICT, WITHOUT ROWID;

-- Leases. No index on their end: there are as many rows as workers hold jobs, and an index would be
-- rewritten by every claim, heartbeat and settlement to save a rare scan of them.
CREATE TABLE running (
    seq        INTEGER PRIMARY KEY,
    token      INTEGER NOT NULL,
    queue      INTEGER NOT NULL,
    until      INTEGER NOT NULL,
    worker     TEXT    NOT NULL,
    started    INTEGER NOT NULL,
    cancelling INTEGER NOT NULL DEFAULT 0
) STRICT;

-- The last token given out, for all jobs together: it can never restart for one of them.
CREATE TABLE fence (
    token INTEGER NOT NULL
) STRICT;

INSERT INTO fence VALUES (0);

CREATE TABLE records (
    job      TEXT    PRIMARY KEY,
    state    TEXT    NOT NULL,
    error    TEXT,
    finished INTEGER NOT NULL,
    expires  INTEGER NOT NULL,
    output   BLOB    NOT NULL
) STRICT;

CREATE INDEX records_by_expiry ON records (expires);

PRAGMA application_id = 0x74696465;
PRAGMA user_version = 1;

-- One job in each place.
INSERT INTO queues VALUES (3, 'jobs', 'at_least_once', 0);
INSERT INTO jobs (seq, id, queue, due, died, body) VALUES
    (1, 'ready', 3, 1, NULL, CAST('{"job_id":"ready","task_type":"t"}' AS BLOB)),
    (2, 'later', 3, 99999999999999, NULL, CAST('{"job_id":"later","task_type":"t"}' AS BLOB)),
    (5, 'held', 3, 1, NULL, CAST('{"job_id":"held","task_type":"t"}' AS BLOB)),
    (6, 'dead', 3, 1, 1, CAST('{"job_id":"dead","task_type":"t"}' AS BLOB));
INSERT INTO waiting VALUES (3, 1, 1), (3, 99999999999999, 2);
INSERT INTO running VALUES (5, 41, 3, 99999999999999, 'w', 1, 0);
UPDATE fence SET token = 41;
INSERT INTO records VALUES ('over', 'done', NULL, 1, 99999999999999, x'3432');
