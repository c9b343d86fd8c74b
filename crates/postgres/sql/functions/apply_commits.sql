-- Applies commits of tasks, each of another run: the id and entry of the commit, the position that
-- the run has consumed, its effects, and whether the run continues (0), continues as new (1) or
-- ends (2). A commit without an entry is an end that was decided outside. Accepts commits whose run is open and has exactly the cursor
-- of the commit, and returns which.
--
-- The caller has locked the rows of the runs in an earlier statement.
CREATE OR REPLACE FUNCTION apply_commits(commits commit_row[], effects effect_row[],
    OUT accepted integer[], OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    runs_of text[];
    closed_runs text[];
    again record;
BEGIN
    SELECT coalesce(array_agg(task.number), '{}'), coalesce(array_agg(task.run), '{}') INTO accepted, runs_of
    FROM unnest(commits) AS task
        JOIN runs ON runs.id = ANY (ARRAY[task.run]) AND runs.status + 0 = 0 AND runs.cursor = task.cursor;
    woken := '{}';
    IF cardinality(accepted) = 0 THEN
        RETURN;
    END IF;
    FOR again IN
        SELECT task.* FROM unnest(commits) AS task WHERE task.next = 1 AND task.number = ANY (accepted)
    LOOP
        PERFORM begin_again(again.run, again.id, again.upto, again.result);
        PERFORM forget_deliveries(again.run, now_ms() - again.memory);
    END LOOP;
    WITH done AS MATERIALIZED (
        SELECT task.*, runs.length + (task.entry IS NOT NULL)::integer AS length
        FROM unnest(commits) AS task JOIN runs ON runs.id = ANY (ARRAY[task.run])
        WHERE task.next <> 1 AND task.number = ANY (accepted)
    ),
    written AS (
        INSERT INTO journal (run, position, kind, entry)
        SELECT run, length, 0, stamped(entry) FROM done WHERE entry IS NOT NULL
    )
    UPDATE runs
    SET cursor = done.upto, last_commit = done.id, length = done.length, status = done.status,
        closed = CASE done.next WHEN 2 THEN now_ms() END, until = CASE done.next WHEN 2 THEN now_ms() + keep END,
        output = coalesce(done.result, ''), error = done.error
    FROM done WHERE runs.id = ANY (ARRAY[done.run]);
    IF cardinality(effects) > 0 THEN
        woken := apply_effects(accepted, runs_of, effects);
    END IF;
    closed_runs := ARRAY(SELECT task.run FROM unnest(commits) AS task
        WHERE task.next = 2 AND task.number = ANY (accepted));
    IF cardinality(closed_runs) > 0 THEN
        DELETE FROM alarms WHERE run = ANY (closed_runs);
        woken := woken || ARRAY(SELECT 'finished ' || task_id(id) FROM unnest(closed_runs) AS id);
    END IF;
END $$;

-- Gives a run an empty journal. Positions continue, so that entries of the old journal cannot be
-- confused with new ones. Unconsumed messages follow the first entry, in their order.
CREATE OR REPLACE FUNCTION begin_again(target text, commit bigint, upto bigint, first bytea) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    last bigint := (SELECT length FROM runs WHERE id = target);
    carried bigint;
BEGIN
    DELETE FROM alarms WHERE run = target;
    WITH old AS (
        DELETE FROM journal WHERE run = target RETURNING position, kind, entry
    ),
    new AS (
        INSERT INTO journal (run, position, kind, entry)
        SELECT target, last + 1 + row_number() OVER (ORDER BY position), kind, entry
        FROM old WHERE kind = 2 AND position > upto
        RETURNING position
    )
    SELECT count(*) INTO carried FROM new;
    INSERT INTO journal (run, position, kind, entry) VALUES (target, last + 1, 1, stamped(first));
    UPDATE runs SET cursor = last, last_commit = commit, length = last + 1 + carried WHERE id = target;
END $$;

-- Deletes the delivery ids of a run that are older than a time, except the latest thousand
-- (MAX_REMEMBERED_DELIVERIES). The caller has locked the row of the run, as has every caller that
-- stores a delivery.
CREATE OR REPLACE FUNCTION forget_deliveries(target text, before bigint) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    last record;
BEGIN
    -- Most runs have no deliveries that old.
    IF NOT EXISTS (SELECT FROM deliveries WHERE run || '' = target AND at < before) THEN
        RETURN;
    END IF;
    SELECT at, id INTO last FROM deliveries WHERE run || '' = target ORDER BY at DESC, id DESC OFFSET 1000 LIMIT 1;
    IF FOUND THEN
        DELETE FROM deliveries WHERE run || '' = target AND at < before AND (at, id) <= (last.at, last.id);
    END IF;
END $$;
