-- Ends a job from outside, whatever its lease, inside the caller's transaction. `outcome` is that
-- of seize; `woken` contains the wake-ups to publish after the commit. Without a state the job is
-- deleted, else its record is kept.
CREATE OR REPLACE FUNCTION complete_job(job text, state smallint, output bytea, error bytea, finished bigint,
    keep bigint, OUT outcome text, OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    taken record;
BEGIN
    taken := seize(job);
    outcome := taken.outcome;
    woken := '{}';
    IF outcome = 'seized' THEN
        IF complete_job.state IS NULL THEN
            DELETE FROM leases WHERE seq = taken.token;
            woken := remove(ARRAY[chain_of(job)]) || ('finished ' || chain_of(job));
        ELSE
            woken := settle_job(taken.token, job, complete_job.state, output, complete_job.error,
                complete_job.finished, complete_job.keep);
        END IF;
        woken := woken || CASE WHEN taken.lost THEN ARRAY['lost ' || job] ELSE '{}' END;
    END IF;
END $$;

-- Ends a job from outside and replaces it by the next step of its chain.
CREATE OR REPLACE FUNCTION complete_by_continuing(job text, target integer, delay bigint, earliest bigint,
    envelope bytea, after_chains text[], OUT outcome text, OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    taken record;
BEGIN
    taken := seize(job);
    outcome := taken.outcome;
    woken := '{}';
    IF outcome = 'seized' THEN
        woken := continue_job(taken.token, job, target, delay, earliest, complete_by_continuing.envelope, after_chains)
            || CASE WHEN taken.lost THEN ARRAY['lost ' || job] ELSE '{}' END;
    END IF;
END $$;
