-- Ends claims of tasks and of jobs that runs wait for, and applies their changes: several runs at
-- once, and several changes of one run in the order of their phases. Events are appended in even
-- phases, commits applied in odd ones. Accepts nothing that its lease or its run does not allow; a
-- task whose commit is not accepted ends all the same.
--
-- Locks leases (sorted, as in record_jobs), then every affected run, by id: a child that notifies
-- its parent and a parent that cancels its child are serialized. Jobs come last.
--
-- With a channel, the commit itself notifies the waiters for ended runs, which saves a round trip.
-- Commits that notify are serialized, so the caller requests it only now and then:
-- src/wake/commit_notify.rs.
--
-- migrations/0005_row_types.sql documents the rows.
CREATE OR REPLACE FUNCTION settle_runs(tokens bigint[], ids text[], expired boolean, commits commit_row[],
    events event_row[], effects effect_row[], channel text, OUT ended bigint[], OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    held integer[];
    gone text[];
    affected text[] := ARRAY(SELECT task.run FROM unnest(commits) AS task)
        || ARRAY(SELECT event.run FROM unnest(events) AS event);
    last_phase integer := greatest((SELECT max(task.phase) FROM unnest(commits) AS task),
        (SELECT max(event.phase) FROM unnest(events) AS event));
    jobs_to_stop text[] := ARRAY(SELECT effect.name FROM unnest(effects) AS effect WHERE effect.kind = 1);
    accepted integer[] := '{}';
    tasks commit_row[];
    written record;
    refused text[];
BEGIN
    -- After a timeout the caller ends claims one by one, so that only the locked one waits.
    PERFORM set_config('lock_timeout', '1s', true);
    woken := '{}';
    IF cardinality(jobs_to_stop) > 0 THEN
        PERFORM lock_work(tokens, jobs_to_stop);
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
    PERFORM 1 FROM runs WHERE id = ANY (affected) ORDER BY id FOR UPDATE;
    DELETE FROM jobs WHERE id = ANY (gone);
    FOR turn IN 0..last_phase LOOP
        IF turn % 2 = 0 THEN
            PERFORM append_events(array_agg(event.run ORDER BY event.place), array_agg(event.kind ORDER BY event.place),
                array_agg(event.entry ORDER BY event.place), array_agg(event.id ORDER BY event.place),
                array_agg(event.seq ORDER BY event.place))
            FROM unnest(events) WITH ORDINALITY AS event (claim, commit, phase, run, kind, entry, id, seq, place)
            WHERE event.phase = turn AND event.claim = ANY (held)
                AND (event.commit IS NULL OR event.commit = ANY (accepted))
            HAVING count(*) > 0;
        ELSE
            tasks := ARRAY(SELECT task FROM unnest(commits) AS task WHERE task.phase = turn AND task.claim = ANY (held));
            IF cardinality(tasks) > 0 THEN
                written := apply_commits(tasks, effects);
                accepted := accepted || written.accepted;
                woken := woken || written.woken;
            END IF;
        END IF;
    END LOOP;
    SELECT array_agg(task.run) INTO refused FROM unnest(commits) AS task
    WHERE NOT task.number = ANY (accepted);
    IF refused IS NOT NULL THEN
        -- Their tasks are deleted. Changing the rows makes older snapshots fail instead of missing
        -- that.
        UPDATE runs SET cursor = cursor WHERE id = ANY (refused) AND status + 0 = 0;
    END IF;
    woken := woken || make_tasks(affected);
    ended := ARRAY(
        SELECT tokens[claim] FROM unnest(held) AS claim
        WHERE NOT claim = ANY (ARRAY(
            SELECT task.claim FROM unnest(commits) AS task WHERE NOT task.number = ANY (accepted)))
    );
    IF channel IS NOT NULL THEN
        PERFORM pg_notify(channel, word) FROM unnest(woken) AS word WHERE starts_with(word, 'finished ');
    END IF;
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
