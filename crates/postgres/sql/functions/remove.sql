-- Removes jobs with their keys and whatever they wait for; those that wait for them are told that they were
-- cancelled. The caller has taken their rows of `ready` and `leases`. FOR UPDATE waits for whoever is beginning to
-- wait for them.
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

-- Whether anybody may be waiting for one of these chains. The caller has locked their rows.
CREATE OR REPLACE FUNCTION awaited(chains text[]) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT NOT sees_the_present() OR EXISTS (
        SELECT FROM blocks WHERE chain = ANY (chains) AND told IS NULL
    )
$$;
