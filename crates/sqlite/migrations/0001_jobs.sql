-- Version 1: jobs and chains.
--
-- A job's bytes are written once and stay where they are while it moves: the moves happen in `waiting` and
-- `running`, whose rows are small, so that claiming 256 jobs dirties a handful of pages instead of every page
-- that holds an envelope. A job is in exactly one of four places: it has a row in `waiting`, `running` or `blocked`, or it died.
--
-- A chain is one job that changes: continuing gives its row the next step's bytes. The row's number stays what it was, so
-- that whoever waits for the chain can do so by a number.
--
-- Everything is called `tidemill_…`: the file is the user's, and holds tables of their own.

-- Which of these steps the file has been through. Not in the file's `user_version`, which is the user's.
CREATE TABLE tidemill_schema (
    version INTEGER NOT NULL
) STRICT;

INSERT INTO tidemill_schema VALUES (0);

CREATE TABLE tidemill_queues (
    id       INTEGER PRIMARY KEY,
    name     TEXT    NOT NULL,
    delivery TEXT    NOT NULL,
    paused   INTEGER NOT NULL DEFAULT 0,
    UNIQUE (name, delivery)
) STRICT;

-- `due` repeats what is in `waiting`, because a job that is looked up by its id must be found there.
-- The bytes come last: reading the columns before them never touches an overflow page.
--
-- `id` is the chain's, `job` that of the job the chain is at. A key and when its chain began are kept here while the
-- chain is open and in its record afterwards: so a key is gone when its chain is.
CREATE TABLE tidemill_jobs (
    seq   INTEGER PRIMARY KEY,
    id    TEXT    NOT NULL UNIQUE,
    queue INTEGER NOT NULL,
    due   INTEGER NOT NULL,
    died  INTEGER,
    step  INTEGER NOT NULL DEFAULT 0,
    key   TEXT,
    begun INTEGER,
    job   TEXT AS (CASE step WHEN 0 THEN id ELSE id || '~' || step END) VIRTUAL,
    body  BLOB    NOT NULL
) STRICT;

CREATE INDEX tidemill_keys ON tidemill_jobs (key, begun) WHERE key IS NOT NULL;

CREATE INDEX tidemill_letters ON tidemill_jobs (queue, died, seq) WHERE died IS NOT NULL;

-- Scheduled and ready jobs in the order they are claimed. The key is the whole row: claiming reads and
-- deletes from the front of a queue's range, however long the range is.
CREATE TABLE tidemill_waiting (
    queue INTEGER NOT NULL,
    due   INTEGER NOT NULL,
    seq   INTEGER NOT NULL,
    PRIMARY KEY (queue, due, seq)
) STRICT, WITHOUT ROWID;

-- Leases. No index on their end: there are as many rows as workers hold jobs, and an index would be
-- rewritten by every claim, heartbeat and settlement to save a rare scan of them.
CREATE TABLE tidemill_running (
    seq        INTEGER PRIMARY KEY,
    token      INTEGER NOT NULL,
    queue      INTEGER NOT NULL,
    until      INTEGER NOT NULL,
    worker     TEXT    NOT NULL,
    started    INTEGER NOT NULL,
    cancelling INTEGER NOT NULL DEFAULT 0
) STRICT;

-- The last token given out, for all jobs together: it can never restart for one of them.
CREATE TABLE tidemill_fence (
    token INTEGER NOT NULL
) STRICT;

INSERT INTO tidemill_fence VALUES (0);

CREATE TABLE tidemill_records (
    job      TEXT    PRIMARY KEY,
    state    TEXT    NOT NULL,
    error    TEXT,
    finished INTEGER NOT NULL,
    expires  INTEGER NOT NULL,
    key      TEXT,
    begun    INTEGER,
    output   BLOB    NOT NULL
) STRICT;

CREATE INDEX tidemill_records_by_expiry ON tidemill_records (expires);

CREATE INDEX tidemill_record_keys ON tidemill_records (key, begun) WHERE key IS NOT NULL;

-- Jobs that wait for chains, and for how many that are open. The job's bytes are not touched before the last has closed.
CREATE TABLE tidemill_blocked (
    seq   INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    open  INTEGER NOT NULL
) STRICT;

CREATE INDEX tidemill_blocked_by_queue ON tidemill_blocked (queue);

-- What a blocked job waits for, in the order in which it named it: the number of a chain that is open, or what one told
-- that has closed.
CREATE TABLE tidemill_blocks (
    waiter   INTEGER NOT NULL,
    position INTEGER NOT NULL,
    blocker  INTEGER,
    told     BLOB,
    PRIMARY KEY (waiter, position)
) STRICT, WITHOUT ROWID;

-- Asked at every end of a job. Most jobs are awaited by nobody and are not in it.
CREATE INDEX tidemill_blocks_by_blocker ON tidemill_blocks (blocker) WHERE blocker IS NOT NULL;
