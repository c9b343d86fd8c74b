-- Ends one claim, inside whatever transaction the caller is in: without a state the job is forgotten, else its record is
-- kept. Returns what to announce after the commit. If the lease is not the current one it fails with TM001, so that a
-- COMMIT which is already on its way rolls everything back.
CREATE OR REPLACE FUNCTION settle_job(token bigint, job text, state smallint, output bytea, error bytea,
    finished bigint, keep bigint) RETURNS text[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    chain text := chain_of(job);
    done record;
BEGIN
    IF settle_job.state IS NULL THEN
        WITH freed AS (
            DELETE FROM leases WHERE seq = token AND id = chain RETURNING id
        )
        DELETE FROM jobs USING freed WHERE jobs.id = ANY (ARRAY[freed.id]);
        IF NOT FOUND THEN
            PERFORM lease_lost(job);
        END IF;
        RETURN '{}';
    END IF;
    SELECT * INTO done FROM record_jobs(ARRAY[token], ARRAY[chain], false, ARRAY[settle_job.state], ARRAY[output],
        ARRAY[settle_job.error], ARRAY[settle_job.finished], ARRAY[settle_job.keep]);
    IF done.ended IS NULL THEN
        PERFORM lease_lost(job);
    END IF;
    RETURN done.woken || ('finished ' || chain);
END $$;

-- Ends one claim by putting the next step of its chain in the job's place, inside whatever transaction the caller is
-- in. Else like settle_job.
CREATE OR REPLACE FUNCTION continue_job(token bigint, job text, target integer, delay bigint, earliest bigint,
    envelope bytea, after_chains text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    done record;
BEGIN
    SELECT * INTO done FROM continue_jobs(ARRAY[token], ARRAY[chain_of(job)], false, ARRAY[target], ARRAY[delay],
        ARRAY[earliest], ARRAY[continue_job.envelope], array_fill(1, ARRAY[cardinality(after_chains)]), after_chains);
    IF done.ended IS NULL THEN
        PERFORM lease_lost(job);
    END IF;
    RETURN done.woken;
END $$;

CREATE OR REPLACE FUNCTION lease_lost(job text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = 'the lease of job ' || job || ' is lost';
END $$;
