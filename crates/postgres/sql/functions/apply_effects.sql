-- Applies the effects of commits. Each effect belongs to a commit, by its index, and is applied if
-- the commit was accepted.
--
--   kind          name      seq     at         delay   data       error
--   0 job         its id    queue   earliest   delay   envelope
--   1 cancel      its id
--   2 alarm       a letter  number  due, or -1 for a delay
--   3 drop alarm            number
--   4 attribute   its name                             value
--   5 record      its id    state   finished   keep    output     error
--
-- The caller has locked the rows of the runs, and before these what is needed to cancel jobs
-- (lock_work). Jobs are inserted in the order of their ids; they belong to the runs, so no other
-- transaction inserts them.
CREATE OR REPLACE FUNCTION apply_effects(accepted integer[], ids text[], effects effect_row[]) RETURNS text[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    kinds smallint[] := ARRAY(SELECT DISTINCT effect.kind FROM unnest(effects) AS effect);
    woken text[] := '{}';
    first_due bigint;
    target integer;
    word text;
BEGIN
    IF 0 = ANY (kinds) THEN
        WITH new AS MATERIALIZED (
            SELECT DISTINCT ON (job.id COLLATE "C") job.*
            FROM unnest(effects) AS job (commit, kind, id, queue, at, delay, envelope)
            WHERE job.kind = 0 AND job.commit = ANY (accepted) ORDER BY job.id COLLATE "C"
        ),
        made AS (
            INSERT INTO jobs AS there (id, queue, due, envelope)
            SELECT id, queue, greatest(now_ms() + delay, at), envelope FROM new
            -- An expired record may not have been pruned yet.
            ON CONFLICT (id) DO UPDATE
            SET queue = excluded.queue, state = 0, seq = excluded.seq, due = excluded.due, finished = NULL,
                keep = NULL, error = NULL, envelope = excluded.envelope, step = 0
            WHERE there.state > 2 AND there.due <= now_ms()
            RETURNING id, queue, due, seq
        ),
        put AS (
            INSERT INTO ready (queue, due, seq, id) SELECT queue, due, seq, id FROM made
        )
        SELECT wakes(array_agg(queue), array_agg(due)) INTO woken FROM made;
    END IF;
    IF 1 = ANY (kinds) THEN
        FOR word IN
            SELECT DISTINCT job.id COLLATE "C" FROM unnest(effects) AS job (commit, kind, id)
            WHERE job.kind = 1 AND job.commit = ANY (accepted) ORDER BY 1
        LOOP
            woken := woken || stop_job(word);
        END LOOP;
    END IF;
    IF 2 = ANY (kinds) THEN
        WITH new AS MATERIALIZED (
            SELECT DISTINCT ON (run.id COLLATE "C", alarm.seq) run.id AS run, alarm.letter, alarm.seq,
                CASE WHEN alarm.at < 0 THEN now_ms() + alarm.delay ELSE alarm.at END AS due
            FROM unnest(effects) WITH ORDINALITY AS alarm (commit, kind, letter, seq, at, delay, data, error, place)
                JOIN unnest(accepted, ids) AS run (place, id) ON run.place = alarm.commit
            WHERE alarm.kind = 2 ORDER BY run.id COLLATE "C", alarm.seq, alarm.place DESC
        ),
        made AS (
            INSERT INTO alarms (run, seq, due, alarm) SELECT run, seq, due, letter FROM new
            ON CONFLICT (run, seq) DO UPDATE SET due = excluded.due, alarm = excluded.alarm
        )
        SELECT due, (SELECT queue FROM runs WHERE runs.id = new.run) INTO first_due, target
        FROM new ORDER BY due LIMIT 1;
        -- Sleepers until the next alarm need no wake-up if there is an earlier one.
        IF NOT EXISTS (SELECT FROM alarms WHERE due < first_due) THEN
            woken := woken || wakes(ARRAY[target], ARRAY[9223372036854775807]);
        END IF;
    END IF;
    IF 3 = ANY (kinds) THEN
        DELETE FROM alarms USING (
            SELECT run.id, alarm.seq FROM unnest(effects) AS alarm
                JOIN unnest(accepted, ids) AS run (place, id) ON run.place = alarm.commit
            WHERE alarm.kind = 3
        ) AS unwanted
        WHERE alarms.run = ANY (ARRAY[unwanted.id]) AND alarms.seq = ANY (ARRAY[unwanted.seq]);
    END IF;
    IF 4 = ANY (kinds) THEN
        INSERT INTO attributes (run, name, value, started)
        SELECT DISTINCT ON (run.id COLLATE "C", new.name COLLATE "C") run.id, new.name, new.value, runs.started
        FROM unnest(effects) WITH ORDINALITY AS new (commit, kind, name, seq, at, delay, value, error, place)
            JOIN unnest(accepted, ids) AS run (place, id) ON run.place = new.commit
            JOIN runs ON runs.id = ANY (ARRAY[run.id])
        WHERE new.kind = 4 ORDER BY run.id COLLATE "C", new.name COLLATE "C", new.place DESC
        ON CONFLICT (run, name) DO UPDATE SET value = excluded.value;
    END IF;
    IF 5 = ANY (kinds) THEN
        WITH new AS MATERIALIZED (
            SELECT DISTINCT ON (record.id COLLATE "C") record.*, runs.queue
            FROM unnest(effects)
                WITH ORDINALITY AS record (commit, kind, id, state, finished, keep, output, error, place)
                JOIN unnest(accepted, ids) AS run (place, id) ON run.place = record.commit
                JOIN runs ON runs.id = ANY (ARRAY[run.id])
            WHERE record.kind = 5 ORDER BY record.id COLLATE "C", record.place DESC
        ),
        kept AS (
            INSERT INTO jobs AS there (id, queue, state, due, finished, keep, error, envelope)
            SELECT id, queue, state, now_ms() + keep, finished, keep, error, output FROM new
            ON CONFLICT (id) DO UPDATE
            SET state = excluded.state, due = excluded.due, finished = excluded.finished, keep = excluded.keep,
                error = excluded.error, envelope = excluded.envelope
            WHERE there.state > 2
            RETURNING id
        )
        SELECT woken || array_agg('finished ' || id) INTO woken FROM kept;
    END IF;
    RETURN woken;
END $$;

-- Cancels a job that a run no longer wants: like cancel_job, but without notifying the run if the
-- job was waiting. If the job changes its state meanwhile, it is looked up again; the caller has
-- taken locks that make this rare.
CREATE OR REPLACE FUNCTION stop_job(job text) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    stopped record;
BEGIN
    FOR look IN 1..12 LOOP
        stopped := cancel_job(job, false);
        IF stopped.outcome IS DISTINCT FROM 'moved' THEN
            RETURN stopped.woken || CASE stopped.outcome WHEN 'told'
                THEN ARRAY['cancel ' || at_step(job, stopped.step)] ELSE '{}' END;
        END IF;
    END LOOP;
    RAISE EXCEPTION USING ERRCODE = 'serialization_failure', MESSAGE = 'job ' || job || ' moves too fast to be cancelled';
END $$;

-- Locks the leases and the rows of `ready` of jobs that are to be cancelled, together with the
-- leases of claims that are to end: before any run is locked, and in the order in which every
-- statement locks them.
CREATE OR REPLACE FUNCTION lock_work(tokens bigint[], jobs_to_stop text[]) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM 1 FROM leases WHERE seq = ANY (tokens || ARRAY(
        SELECT seq FROM jobs WHERE id = ANY (jobs_to_stop) AND state + 0 = 0
    )) ORDER BY seq FOR UPDATE;
    PERFORM 1 FROM (
        SELECT queue, due, seq FROM jobs WHERE id = ANY (jobs_to_stop) AND state + 0 = 0 ORDER BY seq
    ) AS job JOIN ready ON ready.queue = ANY (ARRAY[job.queue]) AND ready.due = ANY (ARRAY[job.due])
        AND ready.seq = ANY (ARRAY[job.seq])
    FOR UPDATE OF ready;
END $$;
