-- Starts a run: its journal, its effects and its first task. `outcome` is `created`; `existing` if
-- a run with its id exists, or `other` with its key; `rejected` if the caller's policy is to
-- reject. Conflict policies of a key: 0 use that run, 1 reject, 2 start if that one has ended.
--
-- The run's row is inserted before its key is locked, in the order in which a prune locks them: a
-- second caller with either waits for the first one's commit. Most second callers see the key at
-- once, and write nothing.
CREATE OR REPLACE FUNCTION start_run(new_id text, type text, code text, target integer, done bigint,
    kinds smallint[], entries bytea[], head bytea, opening bytea, new_key text, conflict smallint, new_parent text,
    new_parent_seq bigint, keep_ms bigint, e_commits integer[], e_kinds smallint[], e_names text[], e_seqs bigint[],
    e_ats bigint[], e_delays bigint[], e_data bytea[], e_errors bytea[],
    OUT outcome text, OUT other text, OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    woken := '{}';
    PERFORM delete_runs(ARRAY(SELECT id FROM runs WHERE id = new_id AND status + 0 > 0 AND until <= now_ms()
        FOR UPDATE SKIP LOCKED));
    other := run_with_key(new_id, type, new_key, conflict);
    IF other IS NULL THEN
        INSERT INTO runs (id, workflow, version, queue, cursor, length, started, keep, key, parent, parent_seq, head)
        VALUES (new_id, type, code, target, done, cardinality(entries), now_ms(), keep_ms, new_key, new_parent,
            new_parent_seq, head)
        ON CONFLICT (id) DO NOTHING;
        IF NOT FOUND THEN
            outcome := 'existing';
            other := new_id;
            RETURN;
        END IF;
        IF new_key IS NOT NULL THEN
            INSERT INTO run_keys (workflow, key, run) VALUES (type, new_key, new_id)
            ON CONFLICT (workflow, key) DO UPDATE SET run = run_keys.run WHERE false;
            other := run_with_key(new_id, type, new_key, conflict);
            IF other IS NOT NULL THEN
                DELETE FROM runs WHERE id = new_id;
            ELSE
                UPDATE run_keys SET run = new_id WHERE workflow = type AND key = new_key AND run <> new_id;
            END IF;
        END IF;
    END IF;
    IF other IS NOT NULL THEN
        outcome := CASE WHEN conflict = 1 AND other <> new_id THEN 'rejected' ELSE 'existing' END;
        RETURN;
    END IF;
    outcome := 'created';
    INSERT INTO journal (run, position, kind, entry)
    SELECT new_id, place, kind, CASE WHEN place > done AND kind > 0 THEN stamped(entry) ELSE entry END
    FROM unnest(kinds, entries) WITH ORDINALITY AS new (kind, entry, place);
    IF cardinality(e_commits) > 0 THEN
        woken := apply_effects(ARRAY[1], ARRAY[new_id], e_commits, e_kinds, e_names, e_seqs, e_ats, e_delays, e_data,
            e_errors);
    END IF;
    woken := woken || make_tasks(ARRAY[new_id], opening);
END $$;

-- The run that prevents this one from being started, by its id or by its key. Locks nothing.
CREATE OR REPLACE FUNCTION run_with_key(new_id text, type text, wanted text, conflict smallint) RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT runs.id FROM run_keys JOIN runs ON runs.id = ANY (ARRAY[run_keys.run])
        WHERE run_keys.workflow = type AND run_keys.key = wanted AND runs.id <> new_id
            AND (runs.status + 0 = 0 OR runs.until > now_ms() AND conflict <> 2)
    );
END $$;
