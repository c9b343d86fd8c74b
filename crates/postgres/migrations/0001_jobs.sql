-- Jobs. The envelope is written once and read once. Between enqueue and settle only rows of two
-- narrow tables move, so that claiming and settling never copy a wide row:
--
--   jobs     every known job, by id: waiting, running, dead, or ended with its record kept
--   ready    one row per waiting job, due now or later, in the order in which jobs are claimed
--   leases   one row per running job
--
-- `seq` is the fence. Every time a job becomes waiting it gets a new number, a row of `ready` is
-- claimed at most once, and the lease made from it keeps its number. So the number is the token of
-- the lease, it only grows, and a lease is checked by one look-up of the primary key.

CREATE SEQUENCE job_seq AS bigint;

CREATE TABLE jobs (
    id text COLLATE "C" PRIMARY KEY,
    queue integer NOT NULL,
    state smallint NOT NULL DEFAULT 0,  -- 0 waiting or running, 2 dead, 3 done, 4 cancelled
    seq bigint NOT NULL DEFAULT nextval('job_seq'),
    due bigint NOT NULL,                -- when it may run; since when it is dead; until when its record is kept
    finished bigint,                    -- when it ended, in a record
    keep bigint,                        -- for how long the record is kept
    error bytea,                        -- why it was discarded; bytes, because text cannot hold a NUL
    envelope bytea NOT NULL             -- the envelope, the dead letter, or the record's output
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000,
        autovacuum_vacuum_cost_delay = 0);

CREATE INDEX jobs_dead ON jobs (queue, due, seq) WHERE state = 2;
CREATE INDEX jobs_kept ON jobs (due) WHERE state IN (3, 4);

CREATE TABLE ready (
    due bigint NOT NULL,
    seq bigint NOT NULL,
    queue integer NOT NULL,
    id text COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
        autovacuum_vacuum_cost_delay = 0);

CREATE INDEX ready_order ON ready (queue, due, seq);

CREATE TABLE leases (
    seq bigint PRIMARY KEY,
    until bigint NOT NULL,
    queue integer NOT NULL,
    started boolean NOT NULL,
    cancelling boolean NOT NULL DEFAULT false,
    id text COLLATE "C" NOT NULL,
    worker text COLLATE "C" NOT NULL
) WITH (fillfactor = 80,                -- room for `started` to change in place
        autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
        autovacuum_vacuum_cost_delay = 0);

CREATE INDEX leases_until ON leases (until, seq);

-- The receipt of an enqueue, for its retry. One row per statement, written with the jobs: their own
-- rows may be gone before the client detects that the result was lost. Rows are only inserted and
-- pruned, never changed: while a snapshot is held for long, a row that changes gets slower each
-- time.
CREATE TABLE receipts (
    at bigint NOT NULL,                 -- when the call was first made, by the store's clock as the client knows it
    call bigint NOT NULL,               -- chosen at random
    created text[],                     -- the ids that were new; NULL if all were, or if `made` says it
    made smallint[],                    -- what enqueue_jobs has answered
    others text[],
    PRIMARY KEY (at, call)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
        autovacuum_vacuum_cost_delay = 0);

-- Other tables refer to queues by number: a number is half the size of a name in an index and a
-- fraction of the work to compare. The number of a queue never changes, so processes may cache it.
CREATE TABLE queues (
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    delivery smallint NOT NULL,         -- 0 at most once, 1 at least once
    paused boolean NOT NULL DEFAULT false,
    UNIQUE (name, delivery)
);

-- The store's clock in milliseconds. Stable within a statement, so that it can bound an index scan,
-- and rounded down, so that nothing is early.
CREATE FUNCTION now_ms() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint $$;
