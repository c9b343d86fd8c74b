-- Inserts jobs that depend on other chains, all or none. Returns for each job: 0 it waits for a
-- worker or its time, 1 it is blocked, 2 a job with its id existed, 3 it duplicates the chain in
-- `others`.
--
-- Locks the chains that are waited for, then keys, then inserts ids: each in its own order, the
-- same in every call. A second caller with the same key waits for the first one's commit, and then
-- sees its chain.
--
-- links (waiter, chain): the job with this index waits for this chain.
CREATE OR REPLACE FUNCTION enqueue_jobs(target integer, ids text[], delays bigint[], earliest bigint[],
    envelopes bytea[], dedup_keys text[], any_state boolean[], windows bigint[], waiters integer[], chains text[],
    OUT made smallint[], OUT others text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now bigint := now_ms();
    blocked integer[] := ARRAY(SELECT DISTINCT unnest(waiters));
    places integer[];
BEGIN
    PERFORM forget(ids);
    PERFORM 1 FROM jobs WHERE id = ANY (chains) ORDER BY id FOR KEY SHARE;
    others := array_fill(NULL::text, ARRAY[cardinality(ids)]);
    IF cardinality(dedup_keys) > 0 THEN
        others := find_duplicates(ids, dedup_keys, any_state, windows, now);
    END IF;
    WITH new AS MATERIALIZED (
        SELECT nextval('job_seq') AS seq, job.*, CASE WHEN job.place = ANY (blocked) THEN 1 ELSE 0 END AS state
        FROM unnest(ids, delays, earliest, envelopes, dedup_keys, others)
            WITH ORDINALITY AS job (id, delay, at, envelope, key, other, place)
        WHERE job.other IS NULL
    ),
    added AS (
        INSERT INTO jobs (id, queue, state, seq, due, envelope, key)
        SELECT id, target, state, seq, greatest(now + delay, at), envelope, key FROM new ORDER BY id COLLATE "C", place
        ON CONFLICT (id) DO NOTHING
        RETURNING id, state, due, seq
    ),
    put AS (
        INSERT INTO ready (queue, due, seq, id) SELECT target, due, seq, id FROM added WHERE state = 0
    )
    -- By number instead of id: of two jobs with one id only one is inserted.
    SELECT array_agg(new.place::integer) INTO places FROM new JOIN added ON added.seq = new.seq;
    IF cardinality(chains) > 0 AND places IS NOT NULL THEN
        PERFORM await_chains(array_agg(ids[link.waiter]), array_agg(link.place::integer), array_agg(link.chain),
            true)
        FROM unnest(waiters, chains) WITH ORDINALITY AS link (waiter, chain, place)
        WHERE link.waiter = ANY (places) HAVING count(*) > 0;
    END IF;
    made := ARRAY(
        SELECT CASE WHEN job.other IS NOT NULL THEN 3 WHEN NOT job.place = ANY (coalesce(places, '{}')) THEN 2
            WHEN job.place = ANY (blocked) THEN coalesce((SELECT state FROM jobs WHERE jobs.id = job.id), 0)
            ELSE 0 END
        FROM unnest(ids, others) WITH ORDINALITY AS job (id, other, place) ORDER BY job.place
    );
END $$;

-- Which of these jobs, all new or existing, duplicate an earlier chain with their key. Locks every
-- key, whether it is taken or not, until the end of the transaction.
CREATE OR REPLACE FUNCTION find_duplicates(ids text[], dedup_keys text[], any_state boolean[], windows bigint[],
    now bigint) RETURNS text[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    others text[] := array_fill(NULL::text, ARRAY[cardinality(ids)]);
    started text[] := '{}';
    wanted record;
    found_ record;
BEGIN
    INSERT INTO keys (key, id, started)
    SELECT DISTINCT ON (key COLLATE "C") key, id, now
    FROM unnest(dedup_keys, ids) WITH ORDINALITY AS wanted (key, id, place)
    WHERE key IS NOT NULL ORDER BY key COLLATE "C", place
    ON CONFLICT (key) DO UPDATE SET id = keys.id WHERE false;
    FOR wanted IN
        SELECT * FROM unnest(ids, dedup_keys, any_state, windows)
            WITH ORDINALITY AS wanted (id, key, any_state, within, place)
        WHERE key IS NOT NULL ORDER BY place
    LOOP
        IF EXISTS (SELECT FROM jobs WHERE id = wanted.id) THEN
            -- A retry, or a taken id that does not have this key.
            DELETE FROM keys WHERE key = wanted.key AND id = wanted.id
                AND NOT EXISTS (SELECT FROM jobs WHERE jobs.id = wanted.id AND jobs.key = wanted.key);
            CONTINUE;
        END IF;
        SELECT keys.id, keys.started, jobs.state, jobs.due INTO found_
        FROM keys LEFT JOIN jobs ON jobs.id = ANY (ARRAY[keys.id]) WHERE keys.key = wanted.key;
        IF found_.id = ANY (started) OR found_.id <> wanted.id
            AND (found_.state < 3 OR wanted.any_state AND found_.due > now)
            AND (wanted.within IS NULL OR found_.started > now - wanted.within)
        THEN
            others[wanted.place] := found_.id;
        ELSE
            UPDATE keys SET id = wanted.id, started = now WHERE key = wanted.key AND id <> wanted.id;
            started := started || wanted.id;
        END IF;
    END LOOP;
    RETURN others;
END $$;

-- Deletes the expired records among these ids, and their keys, so that the ids can be used again
-- before a prune. Skips rows that a prune has locked.
CREATE OR REPLACE FUNCTION forget(ids text[]) RETURNS void
LANGUAGE sql AS $$
    WITH gone AS (
        DELETE FROM jobs WHERE id = ANY (ARRAY(
            SELECT id FROM jobs
            WHERE id = ANY (ids) AND state + 0 IN (3, 4) AND due <= now_ms()
            FOR UPDATE SKIP LOCKED
        )) RETURNING id, key
    )
    DELETE FROM keys USING (SELECT key, id FROM gone WHERE key IS NOT NULL ORDER BY key) AS gone
    WHERE keys.key = ANY (ARRAY[gone.key]) AND keys.id = gone.id
$$;
