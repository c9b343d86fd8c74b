-- Ends a run without its code, if it has the cursor that the caller expects. Its task is removed,
-- whatever its state. `outcome` is `ended`, `moved` if the task changed its state meanwhile and the
-- caller tries again, or null.
--
-- Locks the task's lease or its row of `ready`, and those of jobs that are to be cancelled, then
-- runs by id.
CREATE OR REPLACE FUNCTION terminate_run(target text, come bigint, final_status smallint, final_output bytea,
    final_error bytea, told_run text, told_kind smallint, told_entry bytea, told_id bytea, told_seq bigint,
    e_commits integer[], e_kinds smallint[], e_names text[], e_seqs bigint[], e_ats bigint[], e_delays bigint[],
    e_data bytea[], e_errors bytea[], OUT outcome text, OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    at bigint;
    task text := task_id(target);
    job record;
    written record;
BEGIN
    woken := '{}';
    PERFORM lock_work('{}', ARRAY(SELECT stop.id FROM unnest(e_kinds, e_names) AS stop (kind, id) WHERE kind = 1)
        || task);
    PERFORM 1 FROM runs WHERE id = ANY (ARRAY[target, told_run]) ORDER BY id FOR UPDATE;
    SELECT cursor INTO at FROM runs WHERE id = target AND status + 0 = 0 AND cursor = come;
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
    written := apply_commits(ARRAY[1], ARRAY[target], ARRAY[NULL::bigint], ARRAY[at], ARRAY[at], ARRAY[NULL::bytea], ARRAY[2::smallint],
        ARRAY[final_output], ARRAY[final_status], ARRAY[final_error], ARRAY[NULL::bigint], e_commits, e_kinds, e_names, e_seqs, e_ats,
        e_delays, e_data, e_errors);
    woken := woken || written.woken;
    IF told_run IS NOT NULL THEN
        PERFORM append_events(ARRAY[told_run], ARRAY[told_kind], ARRAY[told_entry], ARRAY[told_id], ARRAY[told_seq]);
        woken := woken || make_tasks(ARRAY[told_run]);
    END IF;
    outcome := 'ended';
END $$;
