-- Starts a run: its journal, its effects and its first task. `outcome` is `created`; `existing` if
-- a run with its id exists, or `other` with its key; `rejected` if the caller's policy is to
-- reject. Conflict policies of a key: 0 use that run, 1 reject, 2 start if that one has ended.
--
-- The run's row is inserted before its key is locked, in the order in which a prune locks them: a
-- second caller with either waits for the first one's commit. Most second callers see the key at
-- once, and write nothing.
CREATE OR REPLACE FUNCTION start_run(new run_row, kinds smallint[], entries bytea[], conflict smallint,
    effects effect_row[], OUT outcome text, OUT other text, OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    woken := '{}';
    PERFORM delete_runs(ARRAY(SELECT id FROM runs WHERE id = new.id AND status + 0 > 0 AND until <= now_ms()
        FOR UPDATE SKIP LOCKED));
    other := run_with_key(new.id, new.workflow, new.key, conflict);
    IF other IS NULL THEN
        INSERT INTO runs (id, workflow, version, queue, cursor, length, started, keep, key, parent, parent_seq, head)
        VALUES (new.id, new.workflow, new.version, new.queue, new.cursor, cardinality(entries), now_ms(), new.keep, new.key, new.parent,
            new.parent_seq, new.head)
        ON CONFLICT (id) DO NOTHING;
        IF NOT FOUND THEN
            outcome := 'existing';
            other := new.id;
            RETURN;
        END IF;
        IF new.key IS NOT NULL THEN
            INSERT INTO run_keys (workflow, key, run) VALUES (new.workflow, new.key, new.id)
            ON CONFLICT (workflow, key) DO UPDATE SET run = run_keys.run WHERE false;
            other := run_with_key(new.id, new.workflow, new.key, conflict);
            IF other IS NOT NULL THEN
                DELETE FROM runs WHERE id = new.id;
            ELSE
                UPDATE run_keys SET run = new.id WHERE workflow = new.workflow AND key = new.key AND run <> new.id;
            END IF;
        END IF;
    END IF;
    IF other IS NOT NULL THEN
        outcome := CASE WHEN conflict = 1 AND other <> new.id THEN 'rejected' ELSE 'existing' END;
        RETURN;
    END IF;
    outcome := 'created';
    INSERT INTO journal (run, position, kind, entry)
    SELECT new.id, place, kind, CASE WHEN place > new.cursor AND kind > 0 THEN stamped(entry) ELSE entry END
    FROM unnest(kinds, entries) WITH ORDINALITY AS journal_entry (kind, entry, place);
    IF cardinality(effects) > 0 THEN
        woken := apply_effects(ARRAY[1], ARRAY[new.id], effects);
    END IF;
    woken := woken || make_tasks(ARRAY[new.id], new.opening);
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
