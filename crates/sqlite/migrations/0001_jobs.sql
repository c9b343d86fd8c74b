-- Version 1: jobs and chains.
--
-- A job's envelope is written once and stays in `jobs` while the job changes state. The state is in
-- `waiting` and `running`, whose rows are small, so that claiming 256 jobs dirties a handful of
-- pages instead of every page with an envelope. A job is in exactly one of four states: it has a
-- row in `waiting`, `running` or `blocked`, or it is dead.
--
-- A chain is one job that changes: continuing it replaces the envelope in its row. The row's number
-- stays the same, so that jobs can wait for the chain by its number.
--
-- Every table is named `tidemill_…`: the file may be the user's and contain other tables.

-- The schema version of the file. It is not in the file's `user_version`, which belongs to the
-- user.
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

-- `due` repeats the value in `waiting`, because a job that is looked up by its id must be found
-- there. The envelope comes last: reading the columns before it never touches an overflow page.
--
-- `id` is the id of the chain, `job` the id of the chain's current job. The dedup key and the
-- chain's start are here while the chain is open and in its record afterwards, so a key ends with
-- its chain.
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

-- Scheduled and ready jobs in the order in which they are claimed. The key is the whole row: a
-- claim reads and deletes a prefix of a queue's range, however long the range is.
CREATE TABLE tidemill_waiting (
    queue INTEGER NOT NULL,
    due   INTEGER NOT NULL,
    seq   INTEGER NOT NULL,
    PRIMARY KEY (queue, due, seq)
) STRICT, WITHOUT ROWID;

-- Leases. There is no index on their end: there are only as many rows as running jobs, and every
-- claim, heartbeat and settlement would rewrite the index to save a rare scan.
CREATE TABLE tidemill_running (
    seq        INTEGER PRIMARY KEY,
    token      INTEGER NOT NULL,
    queue      INTEGER NOT NULL,
    until      INTEGER NOT NULL,
    worker     TEXT    NOT NULL,
    started    INTEGER NOT NULL,
    cancelling INTEGER NOT NULL DEFAULT 0
) STRICT;

-- The last token, for all jobs together, so that it can never restart for one of them.
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

-- Jobs that wait for chains, with the number of those that are open. The job's envelope stays
-- unchanged until the last chain has closed.
CREATE TABLE tidemill_blocked (
    seq   INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    open  INTEGER NOT NULL
) STRICT;

CREATE INDEX tidemill_blocked_by_queue ON tidemill_blocked (queue);

-- What a blocked job waits for, in the order in which it named the chains: the number of an open
-- chain, or the notice of a closed one.
CREATE TABLE tidemill_blocks (
    waiter   INTEGER NOT NULL,
    position INTEGER NOT NULL,
    blocker  INTEGER,
    told     BLOB,
    PRIMARY KEY (waiter, position)
) STRICT, WITHOUT ROWID;

-- Read at every end of a job. Most jobs have no waiter and are not in this index.
CREATE INDEX tidemill_blocks_by_blocker ON tidemill_blocks (blocker) WHERE blocker IS NOT NULL;
