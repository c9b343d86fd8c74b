-- Version 2: workflows.
--
-- A run is a row and a journal. Its tasks and activities are jobs; the task is the job whose id is the run's, so that there is
-- never more than one. The row is small and changes with every event; what does not change is in tables beside it.

-- Columns that change come first, the bytes last: moving the cursor touches no overflow page and no index.
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

-- Lists are newest first, of one status or of all five merged, so these two serve every list. The number that decides
-- between runs started in one millisecond is part of every index anyway.
CREATE INDEX tidemill_runs_by_status ON tidemill_runs (status, started);

CREATE INDEX tidemill_runs_by_workflow ON tidemill_runs (workflow, status, started);

-- What pruning looks for: whose time is over, and the oldest of each type.
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

-- An alarm that nobody can read has no time any more, and goes with its run.
CREATE TABLE tidemill_alarms (
    run   INTEGER NOT NULL,
    seq   INTEGER NOT NULL,
    due   INTEGER,
    alarm TEXT    NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX tidemill_alarms_by_due ON tidemill_alarms (due);

-- The ids of what was delivered once and is not to be delivered again, and when that was.
CREATE TABLE tidemill_run_seen (
    run INTEGER NOT NULL,
    id  TEXT    NOT NULL,
    at  INTEGER NOT NULL,
    PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- The oldest of a run are forgotten first.
CREATE INDEX tidemill_run_seen_by_age ON tidemill_run_seen (run, at, id);

-- Whose a key is. Not a column of the run: a key goes to a later run while the former still says what it was started with.
CREATE TABLE tidemill_run_keys (
    workflow TEXT    NOT NULL,
    key      TEXT    NOT NULL,
    run      INTEGER NOT NULL,
    PRIMARY KEY (workflow, key)
) STRICT, WITHOUT ROWID;

-- `started` repeats the run's, so that runs with an attribute are found newest first.
CREATE TABLE tidemill_run_attributes (
    run     INTEGER NOT NULL,
    name    TEXT    NOT NULL,
    value   TEXT    NOT NULL,
    started INTEGER NOT NULL,
    PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX tidemill_run_attributes_by_value ON tidemill_run_attributes (name, value, started, run);
