-- Ends one claim, inside the caller's transaction: without a state the job is deleted, else its
-- record is kept. Returns the wake-ups to publish after the commit. If the lease is not the current
-- one it fails with TM001, so that a COMMIT that is already on its way rolls everything back.
--
-- The same as record_jobs for one claim, in the simplest statements: every atomic handler pays for
-- this.
CREATE OR REPLACE FUNCTION settle_job(token bigint, job text, state smallint, output bytea, error bytea,
    finished bigint, keep bigint) RETURNS text[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    row_id text := CASE WHEN strpos(job, '~') = 0 THEN job ELSE chain_of(job) END;
    closed_seq bigint;
BEGIN
    DELETE FROM leases WHERE seq = token AND id = row_id;
    IF NOT FOUND THEN
        PERFORM lease_lost(job);
    END IF;
    IF settle_job.state IS NULL THEN
        DELETE FROM jobs WHERE id = row_id;
        RETURN '{}';
    END IF;
    PERFORM 1 FROM jobs WHERE id = row_id FOR UPDATE;
    UPDATE jobs
    SET state = settle_job.state, envelope = settle_job.output, error = settle_job.error,
        finished = settle_job.finished, keep = settle_job.keep, due = now_ms() + settle_job.keep
    WHERE id = row_id RETURNING seq INTO closed_seq;
    IF EXISTS (SELECT FROM blocks WHERE chain = row_id AND told IS NULL) OR NOT sees_the_present() THEN
        RETURN release(ARRAY[row_id], ARRAY[closed_seq], ARRAY[told(row_id, settle_job.state, settle_job.output)])
            || ('finished ' || row_id);
    END IF;
    RETURN ARRAY['finished ' || row_id];
END $$;

-- Ends one claim and replaces the job by the next step of its chain, inside the caller's
-- transaction. Otherwise like settle_job, and to continue_jobs what that is to record_jobs.
CREATE OR REPLACE FUNCTION continue_job(token bigint, job text, target integer, delay bigint, earliest bigint,
    envelope bytea, after_chains text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    row_id text := chain_of(job);
    stopping boolean;
    next record;
BEGIN
    DELETE FROM leases WHERE seq = token AND id = row_id RETURNING cancelling INTO stopping;
    IF NOT FOUND THEN
        PERFORM lease_lost(job);
    END IF;
    IF stopping THEN
        RETURN remove(ARRAY[row_id]) || ('finished ' || row_id);
    END IF;
    IF cardinality(after_chains) > 0 THEN
        PERFORM 1 FROM jobs WHERE id = ANY (after_chains) ORDER BY id FOR KEY SHARE;
    END IF;
    UPDATE jobs
    SET state = CASE WHEN cardinality(after_chains) > 0 THEN 1 ELSE 0 END, step = step + 1, queue = target,
        seq = nextval('job_seq'), due = greatest(now_ms() + delay, earliest), envelope = continue_job.envelope
    WHERE id = row_id RETURNING due, seq INTO next;
    IF cardinality(after_chains) > 0 THEN
        RETURN await_chains(array_fill(row_id, ARRAY[cardinality(after_chains)]),
            ARRAY(SELECT generate_series(1, cardinality(after_chains))), after_chains, false);
    END IF;
    INSERT INTO ready (queue, due, seq, id) VALUES (target, next.due, next.seq, row_id);
    RETURN wakes(ARRAY[target], ARRAY[next.due]);
END $$;

CREATE OR REPLACE FUNCTION lease_lost(job text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = 'the lease of job ' || job || ' is lost';
END $$;
