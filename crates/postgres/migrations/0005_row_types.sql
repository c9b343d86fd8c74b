-- Rows as arguments. A function that takes many rows takes one array of a row type instead of an
-- array per column.
--
-- The functions that took parallel arrays have other parameters now. Without the drops the old
-- ones would stay as overloads.

DROP FUNCTION IF EXISTS settle_runs, runs_settle, apply_commits, apply_effects, start_run, terminate_run, list_runs,
    continue_jobs, join_members, beat_members, lease_member, attach_sessions;

-- A commit of a task. Events and effects refer to its number.
CREATE TYPE commit_row AS (
    number integer,                     -- from 1
    claim integer,                      -- the place of its claim
    phase integer,                      -- when it is applied: an odd number
    run text,
    id bigint,                          -- NULL if the run ends from outside
    cursor bigint,                      -- where the task began
    upto bigint,                        -- the last consumed position
    entry bytea,                        -- of the journal; NULL if the run ends from outside
    next smallint,                      -- 0 the run waits, 1 it continues as new, 2 it ends
    result bytea,                       -- the first entry of the new journal, or the output
    status smallint,                    -- of a run that ends
    error bytea,
    memory bigint                       -- how long a run that continues as new remembers delivery ids, in ms
);

-- An event for a run.
CREATE TYPE event_row AS (
    claim integer,                      -- the place of the claim it belongs to
    commit integer,                     -- the number of the commit it belongs to, or NULL
    phase integer,                      -- when it is appended: an even number
    run text,
    kind smallint,
    entry bytea,
    id bytea,                           -- of the event, or NULL
    seq bigint                          -- the command it answers, or NULL
);

-- An effect of a commit; functions/apply_effects.sql documents the columns of each kind.
CREATE TYPE effect_row AS (
    commit integer,                     -- the number of its commit
    kind smallint,
    name text,
    seq bigint,
    at bigint,
    delay bigint,
    data bytea,
    error bytea
);

-- A run to start.
CREATE TYPE run_row AS (
    id text,
    workflow text,
    version text,
    queue integer,
    cursor bigint,
    head bytea,                         -- what the envelope of every task begins with
    opening bytea,                      -- further fields of the first task
    key text,
    parent text,
    parent_seq bigint,
    keep bigint                         -- for how long it is kept when it has ended
);

-- The next step of a chain.
CREATE TYPE step_row AS (
    queue integer,
    delay bigint,                       -- in ms
    earliest bigint,                    -- 0 for none
    envelope bytea,
    after_chains text[]                 -- the chains it waits for, in order
);

-- A worker of the fleet, as its heartbeat reports it.
CREATE TYPE member_row AS (
    id text,
    kind text,
    offer text,
    endpoint text,
    status smallint,
    concurrent bigint,                  -- sessions at once
    most bigint,                        -- sessions in all, 0 for no limit
    fresh bigint,                       -- how long after a heartbeat it counts as alive, in ms
    detail bytea
);

-- A request for a worker.
CREATE TYPE lease_row AS (
    session text,
    kind text,
    offers text[],
    holder text,
    ttl bigint,                         -- in ms
    keep bigint,                        -- in ms
    detail bytea,
    refused text[],                     -- workers it rejects
    max_waiting bigint,                 -- NULL if it does not want to wait
    wait_ttl bigint                     -- in ms, NULL likewise
);

-- A session that its holder registers or renews.
CREATE TYPE session_row AS (
    id text,
    member text,
    holder text,
    ttl bigint,                         -- in ms
    keep bigint,                        -- in ms
    connected boolean,
    take_over boolean,
    must_exist boolean,
    started_at bigint,
    detail bytea
);
