-- Ends claims of tasks and of jobs that runs wait for, and applies their changes: several runs at
-- once, and several changes of one run in the order of their phases. Events are appended in even
-- phases, commits applied in odd ones. Accepts nothing that its lease or its run does not allow; a
-- task whose commit is not accepted ends all the same.
--
-- Locks leases (sorted, as in record_jobs), then every affected run, by id: a child that notifies
-- its parent and a parent that cancels its child are serialized. Jobs come last.
--
-- Commits: claim, phase, run, id, cursor and last consumed position, entry, what follows (see
-- apply_commits). Events: claim, the commit they belong to, phase, run, kind, entry, id, command.
-- Effects: see apply_effects.
CREATE OR REPLACE FUNCTION settle_runs(tokens bigint[], ids text[], expired boolean, phases integer,
    c_claims integer[], c_phases integer[], c_runs text[], c_ids bigint[], c_cursors bigint[], c_uptos bigint[], c_entries bytea[],
    c_thens smallint[], c_results bytea[], c_statuses smallint[], c_errors bytea[], c_memories bigint[],
    d_claims integer[], d_commits integer[], d_phases integer[], d_runs text[], d_kinds smallint[], d_entries bytea[],
    d_ids bytea[], d_seqs bigint[],
    e_commits integer[], e_kinds smallint[], e_names text[], e_seqs bigint[], e_ats bigint[], e_delays bigint[],
    e_data bytea[], e_errors bytea[], OUT ended bigint[], OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    held integer[];
    gone text[];
    accepted integer[] := '{}';
    tasks record;
    written record;
    refused text[];
BEGIN
    -- After a timeout the caller ends claims one by one, so that only the locked one waits.
    PERFORM set_config('lock_timeout', '1s', true);
    woken := '{}';
    IF 1 = ANY (e_kinds) THEN
        PERFORM lock_work(tokens, ARRAY(SELECT job.id FROM unnest(e_kinds, e_names) AS job (kind, id) WHERE kind = 1));
    END IF;
    WITH freed AS (
        DELETE FROM leases USING unnest(tokens, ids) WITH ORDINALITY AS held (seq, id, place)
        WHERE leases.seq = ANY (ARRAY[held.seq]) AND leases.id = held.id
            AND (NOT expired OR leases.until <= now_ms())
        RETURNING held.place, leases.id
    )
    SELECT array_agg(place::integer), array_agg(id) INTO held, gone FROM freed;
    IF held IS NULL THEN
        RETURN;
    END IF;
    PERFORM 1 FROM runs WHERE id = ANY (c_runs || d_runs) ORDER BY id FOR UPDATE;
    DELETE FROM jobs WHERE id = ANY (gone);
    FOR turn IN 0..phases LOOP
        IF turn % 2 = 0 THEN
            PERFORM append_events(array_agg(event.run ORDER BY event.place), array_agg(event.kind ORDER BY event.place),
                array_agg(event.entry ORDER BY event.place), array_agg(event.id ORDER BY event.place),
                array_agg(event.seq ORDER BY event.place))
            FROM unnest(d_claims, d_commits, d_phases, d_runs, d_kinds, d_entries, d_ids, d_seqs)
                WITH ORDINALITY AS event (claim, commit, phase, run, kind, entry, id, seq, place)
            WHERE event.phase = turn AND event.claim = ANY (held)
                AND (event.commit IS NULL OR event.commit = ANY (accepted))
            HAVING count(*) > 0;
        ELSE
            SELECT array_agg(task.place::integer) AS places, array_agg(task.run) AS runs, array_agg(task.id) AS ids,
                array_agg(task.cursor) AS cursors,
                array_agg(task.upto) AS uptos, array_agg(task.entry) AS entries, array_agg(task.next) AS thens,
                array_agg(task.result) AS results, array_agg(task.status) AS statuses, array_agg(task.error) AS errors,
                array_agg(task.memory) AS memories
            INTO tasks
            FROM unnest(c_claims, c_phases, c_runs, c_ids, c_cursors, c_uptos, c_entries, c_thens, c_results, c_statuses, c_errors,
                c_memories)
                WITH ORDINALITY AS task (claim, phase, run, id, cursor, upto, entry, next, result, status, error, memory, place)
            WHERE task.phase = turn AND task.claim = ANY (held);
            IF tasks.places IS NOT NULL THEN
                written := apply_commits(tasks.places, tasks.runs, tasks.ids, tasks.cursors, tasks.uptos, tasks.entries,
                    tasks.thens, tasks.results, tasks.statuses, tasks.errors, tasks.memories, e_commits, e_kinds, e_names, e_seqs,
                    e_ats, e_delays, e_data, e_errors);
                accepted := accepted || written.accepted;
                woken := woken || written.woken;
            END IF;
        END IF;
    END LOOP;
    SELECT array_agg(task.run) INTO refused FROM unnest(c_runs) WITH ORDINALITY AS task (run, place)
    WHERE NOT task.place = ANY (accepted);
    IF refused IS NOT NULL THEN
        -- Their tasks are deleted. Changing the rows makes older snapshots fail instead of missing
        -- that.
        UPDATE runs SET cursor = cursor WHERE id = ANY (refused) AND status + 0 = 0;
    END IF;
    woken := woken || make_tasks(c_runs || d_runs);
    ended := ARRAY(
        SELECT tokens[claim] FROM unnest(held) AS claim
        WHERE NOT claim = ANY (ARRAY(
            SELECT task.claim FROM unnest(c_claims) WITH ORDINALITY AS task (claim, place)
            WHERE NOT task.place = ANY (accepted)))
    );
END $$;

-- Ends one claim of a job that a run waits for and delivers the event to the run, inside the
-- caller's transaction. Otherwise like settle_job, and to settle_runs what that is to record_jobs.
CREATE OR REPLACE FUNCTION deliver_job(token bigint, job text, target text, kind smallint, entry bytea, event_id bytea,
    command bigint) RETURNS text[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    row_id text := chain_of(job);
BEGIN
    DELETE FROM leases WHERE seq = token AND id = row_id;
    IF NOT FOUND THEN
        PERFORM lease_lost(job);
    END IF;
    PERFORM 1 FROM runs WHERE id = target FOR UPDATE;
    DELETE FROM jobs WHERE id = row_id;
    PERFORM append_events(ARRAY[target], ARRAY[kind], ARRAY[entry], ARRAY[event_id], ARRAY[command]);
    RETURN make_tasks(ARRAY[target]);
END $$;

-- Ends a job that a run waits for from outside, and delivers the event to the run.
CREATE OR REPLACE FUNCTION complete_by_delivering(job text, target text, kind smallint, entry bytea, event_id bytea,
    command bigint, OUT outcome text, OUT woken text[])
LANGUAGE plpgsql AS $$
DECLARE
    taken record;
BEGIN
    taken := seize(job);
    outcome := taken.outcome;
    woken := '{}';
    IF outcome = 'seized' THEN
        woken := deliver_job(taken.token, job, target, kind, entry, event_id, command)
            || CASE WHEN taken.lost THEN ARRAY['lost ' || job] ELSE '{}' END;
    END IF;
END $$;
