-- Workflows. A run is a row and a journal; its tasks and activities are jobs like any other.
--
--   runs        every known run, open or closed and still kept
--   journal     the events and the commits of a run, by position
--   alarms      when runs receive a timer event
--   deliveries  the ids of events that a run has received, so that each is delivered once
--   run_keys    the latest run of each idempotency key
--   attributes  the search attributes of runs
--
-- Every change of a run locks its row and changes that too: so a statement after the lock sees the
-- current state. Rows are locked in this order: leases and ready (by number), runs (by id), rows of
-- `jobs`, then as documented in 0002_chains. Only a transaction that has locked the run creates or
-- deletes its task. So a task that exists while an event is appended still exists when its commit
-- looks for unconsumed events.

CREATE TABLE runs (
    id text COLLATE "C" PRIMARY KEY,
    workflow text COLLATE "C" NOT NULL,
    version text COLLATE "C" NOT NULL,
    status smallint NOT NULL DEFAULT 0, -- 0 running, 1 completed, 2 failed, 3 cancelled, 4 terminated
    queue integer NOT NULL,
    cursor bigint NOT NULL,             -- up to which position its commits have consumed its journal
    length bigint NOT NULL,             -- the last position
    last_commit bigint,                 -- the id of its last commit
    started bigint NOT NULL,
    keep bigint NOT NULL,               -- for how long it is kept when it has ended
    closed bigint,
    until bigint,                       -- until when it is kept
    key text COLLATE "C",
    parent text COLLATE "C",
    parent_seq bigint,
    head bytea NOT NULL,                -- what the envelope of every task begins with
    output bytea NOT NULL DEFAULT '',
    error bytea                         -- bytes, because text cannot hold a NUL
) WITH (fillfactor = 75,                -- room for a commit to change it in place
        autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000,
        autovacuum_vacuum_cost_delay = 0);

-- Not the id itself: the planner would look for an id in the whole of such an index if it believed
-- it to be empty.
CREATE INDEX runs_by_age ON runs (started, (id || ''));
CREATE INDEX runs_by_workflow ON runs (workflow, started, (id || ''));
CREATE INDEX runs_by_status ON runs (status, started, (id || ''));
CREATE INDEX runs_kept ON runs (until) WHERE status > 0;
CREATE INDEX runs_closed ON runs (workflow, closed, (id || '')) WHERE status > 0;

CREATE TABLE journal (
    run text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    kind smallint NOT NULL,             -- 0 commit, 1 answer, 2 message
    entry bytea NOT NULL,
    PRIMARY KEY (run, position)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000,
        autovacuum_vacuum_cost_delay = 0);

CREATE TABLE alarms (
    run text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    due bigint NOT NULL,
    alarm text COLLATE "C" NOT NULL CHECK (alarm IN ('t', 'c')),
    PRIMARY KEY (run, seq)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
        autovacuum_vacuum_cost_delay = 0);

CREATE INDEX alarms_due ON alarms (due);

CREATE TABLE deliveries (
    run text COLLATE "C" NOT NULL,
    id bytea NOT NULL,
    at bigint NOT NULL,                 -- when: the oldest of a run are forgotten first
    PRIMARY KEY (run, id)
);

-- Not the run itself, for the same reason as above: look-ups of a delivered id must not use this
-- index.
CREATE INDEX deliveries_by_age ON deliveries ((run || ''), at, id);

CREATE TABLE run_keys (
    workflow text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    run text COLLATE "C" NOT NULL,
    PRIMARY KEY (workflow, key)
);

-- Values are kept as they were written and compared byte by byte. They may be longer than an index
-- can hold.
CREATE TABLE attributes (
    run text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    value bytea NOT NULL,
    started bigint NOT NULL,            -- the run's, so that a page of runs is found in order
    PRIMARY KEY (run, name)
);

CREATE INDEX attributes_by_value ON attributes (name, sha256(value), started, (run || ''));
