-- Version 2: workflows.
--
-- A run is a row and a journal. Its tasks and activities are jobs. The id of the task follows from
-- the run's id, so that there is never more than one. The row is small and changes with every
-- event; what does not change is in other tables.

-- Columns that change come first and bytes last: moving the cursor touches no overflow page and no
-- index.
CREATE TABLE tidemill_runs (
    number     INTEGER PRIMARY KEY,
    cursor     INTEGER NOT NULL,
    length     INTEGER NOT NULL,
    status     TEXT    NOT NULL CHECK (status IN ('running', 'completed', 'failed', 'cancelled', 'terminated')),
    closed     INTEGER,
    expires    INTEGER,
    started    INTEGER NOT NULL,
    keep       INTEGER NOT NULL,
    last_commit INTEGER, -- the id of its last commit
    queue      INTEGER NOT NULL,
    parent_seq INTEGER,
    id         TEXT    NOT NULL UNIQUE,
    workflow   TEXT    NOT NULL,
    version    TEXT    NOT NULL,
    key        TEXT,
    parent     TEXT,
    error      TEXT,
    head       BLOB    NOT NULL,
    output     BLOB    NOT NULL DEFAULT x''
) STRICT;

-- Lists are newest first, of one status or of all five merged, so these two indexes serve every
-- list. The number that decides between runs started in the same millisecond is part of every index
-- anyway.
CREATE INDEX tidemill_runs_by_status ON tidemill_runs (status, started);

CREATE INDEX tidemill_runs_by_workflow ON tidemill_runs (workflow, status, started);

-- For pruning: expired runs, and the oldest runs of each type.
CREATE INDEX tidemill_runs_by_expiry ON tidemill_runs (expires) WHERE expires IS NOT NULL;

CREATE INDEX tidemill_runs_by_close ON tidemill_runs (workflow, closed) WHERE closed IS NOT NULL;

-- `c` for a commit, `a` for an answer to the run's own commands, `m` for a message.
CREATE TABLE tidemill_journal (
    run      INTEGER NOT NULL,
    position INTEGER NOT NULL,
    kind     TEXT    NOT NULL CHECK (kind IN ('c', 'a', 'm')),
    entry    BLOB    NOT NULL,
    PRIMARY KEY (run, position)
) STRICT, WITHOUT ROWID;

-- An alarm that cannot be parsed has no due time, and is deleted with its run.
CREATE TABLE tidemill_alarms (
    run   INTEGER NOT NULL,
    seq   INTEGER NOT NULL,
    due   INTEGER,
    alarm TEXT    NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX tidemill_alarms_by_due ON tidemill_alarms (due);

-- The ids of delivered events, so that none is delivered twice, with the time of delivery.
CREATE TABLE tidemill_run_seen (
    run INTEGER NOT NULL,
    id  TEXT    NOT NULL,
    at  INTEGER NOT NULL,
    PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- The oldest deliveries of a run are deleted first.
CREATE INDEX tidemill_run_seen_by_age ON tidemill_run_seen (run, at, id);

-- The run that holds a key. It is not a column of the run: a later run can get the key while the
-- earlier one still shows the key that it was started with.
CREATE TABLE tidemill_run_keys (
    workflow TEXT    NOT NULL,
    key      TEXT    NOT NULL,
    run      INTEGER NOT NULL,
    PRIMARY KEY (workflow, key)
) STRICT, WITHOUT ROWID;

-- `started` repeats the run's start, so that runs with an attribute are found newest first.
CREATE TABLE tidemill_run_attributes (
    run     INTEGER NOT NULL,
    name    TEXT    NOT NULL,
    value   TEXT    NOT NULL,
    started INTEGER NOT NULL,
    PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX tidemill_run_attributes_by_value ON tidemill_run_attributes (name, value, started, run);
