-- Deletes jobs with their keys and what they wait for. Jobs that wait for them are notified that
-- they were cancelled. The caller has deleted their rows of `ready` and `leases`. FOR UPDATE waits
-- for transactions in which jobs begin to wait for them.
CREATE OR REPLACE FUNCTION remove(ids text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    removed text[];
    seqs bigint[];
BEGIN
    PERFORM 1 FROM jobs WHERE id = ANY (ids) ORDER BY id FOR UPDATE;
    WITH gone AS (
        DELETE FROM jobs WHERE id = ANY (ids) RETURNING id, state, seq, key
    ),
    unblocked AS (
        DELETE FROM blocks USING gone WHERE gone.state = 1 AND blocks.job = ANY (ARRAY[gone.id])
    ),
    freed AS (
        DELETE FROM keys USING (SELECT key, id FROM gone WHERE key IS NOT NULL ORDER BY key) AS gone
        WHERE keys.key = ANY (ARRAY[gone.key]) AND keys.id = gone.id
    )
    SELECT array_agg(id), array_agg(seq) INTO removed, seqs FROM gone;
    IF removed IS NULL OR NOT awaited(removed) THEN
        RETURN '{}';
    END IF;
    RETURN release(removed, seqs, ARRAY(SELECT told(id, 4::smallint, ''::bytea) FROM unnest(removed) AS id));
END $$;

-- Deletes cancelled jobs, and notifies the runs that wait for them. The event is the one that
-- `removal_delivery` makes. Jobs that belong to no run cost only a check of their ids.
--
-- The caller has deleted their rows of `ready` and `leases`; runs are locked by id, and only then
-- rows of `jobs`.
CREATE OR REPLACE FUNCTION remove_and_tell(ids text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    of_runs text[] := ARRAY(SELECT id FROM unnest(ids) AS id WHERE position('!' IN id) > 0);
    asked record;
    woken text[];
BEGIN
    IF cardinality(of_runs) = 0 THEN
        RETURN remove(ids);
    END IF;
    SELECT array_agg(asker.run) AS runs, array_agg(asker.seq) AS seqs, array_agg(convert_to('{"at":' || now_ms()
            || ',"event":{"activity_done":{"seq":' || asker.seq || ',"result":{"failed":'
            || '{"message":"removed from its queue","kind":"cancelled"}}}}}', 'UTF8')) AS entries
    INTO asked FROM jobs, asker_of(jobs.envelope) AS asker WHERE jobs.id = ANY (of_runs) AND asker.run IS NOT NULL;
    PERFORM 1 FROM runs WHERE id = ANY (asked.runs) ORDER BY id FOR UPDATE;
    woken := remove(ids);
    IF asked.runs IS NOT NULL THEN
        PERFORM append_events(asked.runs, array_fill(1::smallint, ARRAY[cardinality(asked.runs)]), asked.entries,
            array_fill(NULL::bytea, ARRAY[cardinality(asked.runs)]), asked.seqs);
        woken := woken || make_tasks(asked.runs);
    END IF;
    RETURN woken;
END $$;

-- Whether a job may be waiting for one of these chains. The caller has locked their rows.
CREATE OR REPLACE FUNCTION awaited(chains text[]) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT NOT sees_the_present() OR EXISTS (
        SELECT FROM blocks WHERE chain = ANY (chains) AND told IS NULL
    )
$$;
