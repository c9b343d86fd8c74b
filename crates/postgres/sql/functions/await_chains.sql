-- Makes blocked jobs wait for chains, each in the order of its positions, and unblocks those whose
-- chains are all closed already. The caller has held FOR KEY SHARE on the rows of the chains since
-- an earlier statement, so none of them can close before the caller's commit.
--
-- A chain that cannot be waited for (it does not exist, keeps no result, or is the job's own) is an
-- error for a new job. For the next step of a chain, whose work is done, it counts as removed.
CREATE OR REPLACE FUNCTION await_chains(waiters text[], positions integer[], chains text[], strict boolean)
RETURNS text[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF strict THEN
        PERFORM refuse_unawaitable(waiters, chains);
    END IF;
    INSERT INTO blocks (job, position, chain, since, told)
    SELECT wanted.job, wanted.position, wanted.chain, coalesce(jobs.seq, 0), CASE
        WHEN jobs.id IS NULL OR wanted.job = wanted.chain OR jobs.state < 3 AND keep_of(jobs.envelope) IS NULL
            THEN told(wanted.chain, 4::smallint, ''::bytea)
        WHEN jobs.state > 2 THEN told(jobs.id, jobs.state, jobs.envelope) END
    FROM unnest(waiters, positions, chains) AS wanted (job, position, chain)
        LEFT JOIN jobs ON jobs.id = ANY (ARRAY[wanted.chain]) AND (jobs.state < 3 OR jobs.due > now_ms());
    RETURN unblock(waiters);
END $$;

-- Fails if one of these chains cannot be waited for. The caller has locked their rows.
CREATE OR REPLACE FUNCTION refuse_unawaitable(waiters text[], chains text[]) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    bad text;
BEGIN
    SELECT wanted.chain INTO bad
    FROM unnest(chains) WITH ORDINALITY AS wanted (chain, at)
        LEFT JOIN jobs ON jobs.id = ANY (ARRAY[wanted.chain]) AND (jobs.state < 3 OR jobs.due > now_ms())
    WHERE jobs.id IS NULL ORDER BY wanted.at LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'TM002', MESSAGE = 'chain ' || bad || ' not found';
    END IF;
    SELECT jobs.id INTO bad
    FROM unnest(waiters, chains) AS wanted (job, chain) JOIN jobs ON jobs.id = ANY (ARRAY[wanted.chain])
    WHERE wanted.job = wanted.chain OR jobs.state < 3 AND keep_of(jobs.envelope) IS NULL LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'TM003',
            MESSAGE = 'nothing can wait for job ' || bad || ': it keeps no result, or is the one that would wait';
    END IF;
END $$;
