-- Ends a run without its code, if it has the cursor that the caller expects. Its task is removed,
-- whatever its state. `outcome` is `ended`, `moved` if the task changed its state meanwhile and the
-- caller tries again, or null.
--
-- Locks the task's lease or its row of `ready`, and those of jobs that are to be cancelled, then
-- runs by id.
CREATE OR REPLACE FUNCTION terminate_run(closing commit_row, told event_row, effects effect_row[],
    OUT outcome text, OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    task text := task_id(closing.run);
    job record;
    written record;
BEGIN
    woken := '{}';
    PERFORM lock_work('{}', ARRAY(SELECT effect.name FROM unnest(effects) AS effect WHERE effect.kind = 1) || task);
    PERFORM 1 FROM runs WHERE id = ANY (ARRAY[closing.run, told.run]) ORDER BY id FOR UPDATE;
    PERFORM 1 FROM runs WHERE id = closing.run AND status + 0 = 0 AND cursor = closing.cursor;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT state, queue, due, seq INTO job FROM jobs WHERE id = task;
    IF FOUND THEN
        DELETE FROM ready WHERE queue = job.queue AND due = job.due AND seq = job.seq AND job.state = 0;
        IF NOT FOUND AND job.state = 0 THEN
            DELETE FROM leases WHERE seq = job.seq;
            IF NOT FOUND THEN
                outcome := 'moved';
                RETURN;
            END IF;
            woken := ARRAY['lost ' || task];
        END IF;
        woken := woken || remove(ARRAY[task]);
    END IF;
    written := apply_commits(ARRAY[closing], effects);
    woken := woken || written.woken;
    IF told.run IS NOT NULL THEN
        PERFORM append_events(ARRAY[told.run], ARRAY[told.kind], ARRAY[told.entry], ARRAY[told.id], ARRAY[told.seq]);
        woken := woken || make_tasks(ARRAY[told.run]);
    END IF;
    outcome := 'ended';
END $$;
