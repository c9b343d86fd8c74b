-- Chains. A chain is one row of `jobs` that changes: continuing it replaces the envelope, maybe for
-- another queue, and increments the step. So a chain is in one state only, as every job is.
--
--   blocks   one row per chain that a blocked job waits for, until the job is unblocked
--   keys     the latest chain of each dedup key
--   owed     closed chains whose waiting jobs could not be unblocked yet
--
-- A job that begins to wait and a chain that closes must not miss each other. The transaction in
-- which a job begins to wait holds FOR KEY SHARE on the rows of its chains and reads them in a
-- later statement. The transaction that closes a chain takes FOR UPDATE on its row, which waits for
-- the former, and looks for waiting jobs in a later statement. Unblocked jobs are locked FOR NO KEY
-- UPDATE, which does not conflict with transactions that begin to wait for them in turn.
--
-- Rows are locked in this order: leases and ready, the rows of `jobs` that end, those that wait for
-- them (each by id), blocks, keys. New rows come last.

ALTER TABLE jobs
    ADD COLUMN step integer NOT NULL DEFAULT 0,     -- which job of its chain this is; 0 is the first
    ADD COLUMN key text COLLATE "C";                -- what it was deduplicated by, so that the key can go with it

COMMENT ON COLUMN jobs.state IS '0 waiting or running, 1 blocked, 2 dead, 3 done, 4 cancelled';

CREATE INDEX jobs_blocked ON jobs (queue, seq) WHERE state = 1;

CREATE TABLE blocks (
    job text COLLATE "C" NOT NULL,
    position integer NOT NULL,          -- in which order the job sees what it is told
    chain text COLLATE "C" NOT NULL,
    since bigint NOT NULL,              -- the chain's number then: a later chain with the same id has a greater one
    told bytea,                         -- how the chain ended, once it has
    PRIMARY KEY (job, position)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
        autovacuum_vacuum_cost_delay = 0);

CREATE INDEX blocks_open ON blocks (chain) WHERE told IS NULL;

CREATE TABLE keys (
    key text COLLATE "C" PRIMARY KEY,
    id text COLLATE "C" NOT NULL,
    started bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000,
        autovacuum_vacuum_cost_delay = 0);

-- A transaction above READ COMMITTED has an old snapshot, so it cannot see jobs that have just
-- begun to wait. It inserts a row here, and a later transaction unblocks them.
CREATE TABLE owed (
    chain text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    told bytea NOT NULL,
    PRIMARY KEY (chain, seq)
);
