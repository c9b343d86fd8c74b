-- Deletes closed runs that have expired, and of each type the oldest beyond `most` that ended
-- `min_age` ago or earlier: a bounded number, and fewer if their journals are long. Skips rows that
-- another prune or a start has locked.
CREATE OR REPLACE FUNCTION prune_runs(most bigint, min_age bigint, batch bigint, entries bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    ids text[];
BEGIN
    ids := ARRAY(SELECT id FROM runs WHERE status > 0 AND until <= now_ms() ORDER BY until LIMIT batch);
    IF cardinality(ids) < batch THEN
        ids := ids || ARRAY(
            WITH RECURSIVE types (name) AS (
                SELECT '' COLLATE "C"
                UNION ALL
                SELECT (SELECT workflow FROM runs WHERE status > 0 AND workflow > types.name ORDER BY workflow LIMIT 1)
                FROM types WHERE types.name IS NOT NULL
            )
            SELECT old.id FROM types, LATERAL (
                SELECT closed, id || '' AS id FROM runs WHERE workflow = types.name AND status > 0
                ORDER BY closed DESC, id || '' DESC OFFSET most LIMIT 1
            ) AS first, LATERAL (
                SELECT id FROM runs WHERE workflow = types.name AND status > 0 AND closed <= now_ms() - min_age
                    AND (closed, id || '') <= (first.closed, first.id)
                ORDER BY closed, id || '' LIMIT batch
            ) AS old LIMIT batch
        );
    END IF;
    ids := ARRAY(SELECT id FROM runs WHERE id = ANY (ids) ORDER BY id FOR UPDATE SKIP LOCKED);
    ids := ARRAY(
        SELECT id FROM (
            SELECT id, sum(length) OVER (ORDER BY id) - length AS before FROM runs WHERE id = ANY (ids)
        ) AS line WHERE before < entries
    );
    PERFORM delete_runs(ids);
    RETURN cardinality(ids);
END $$;

-- Deletes runs with everything they have. The caller has locked their rows. A key that belongs to
-- another run by now stays.
CREATE OR REPLACE FUNCTION delete_runs(ids text[]) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF cardinality(ids) = 0 THEN
        RETURN;
    END IF;
    DELETE FROM journal WHERE run = ANY (ids);
    DELETE FROM alarms WHERE run = ANY (ids);
    DELETE FROM deliveries WHERE run = ANY (ids);
    DELETE FROM attributes WHERE run = ANY (ids);
    WITH gone AS (
        DELETE FROM runs WHERE id = ANY (ids) RETURNING id, workflow, key
    )
    DELETE FROM run_keys USING (SELECT * FROM gone WHERE key IS NOT NULL ORDER BY workflow, key) AS gone
    WHERE run_keys.workflow = ANY (ARRAY[gone.workflow]) AND run_keys.key = ANY (ARRAY[gone.key])
        AND run_keys.run = gone.id;
END $$;
