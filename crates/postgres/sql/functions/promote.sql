-- Fires due alarms of runs, a bounded number. Returns how long until the next alarm or the next
-- scheduled job of these queues, and whether jobs are still to be unblocked.
--
-- Skips runs that others have locked: their alarms fire the next time. An alarm whose run is gone
-- is deleted, so that it does not block the others.
CREATE OR REPLACE FUNCTION promote(numbers integer[], most bigint, OUT fired bigint, OUT next_in bigint,
    OUT is_owed boolean, OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    due_runs text[];
    due_seqs bigint[];
BEGIN
    fired := 0;
    woken := '{}';
    SELECT array_agg(run), array_agg(seq) INTO due_runs, due_seqs FROM (
        SELECT run, seq FROM alarms WHERE due <= now_ms() ORDER BY due LIMIT most
    ) AS due;
    IF due_runs IS NOT NULL THEN
        SELECT done.fired, done.woken INTO fired, woken FROM fire_alarms(due_runs, due_seqs) AS done;
    END IF;
    SELECT min(due) - now_ms(), EXISTS (SELECT FROM owed WHERE chain > '') INTO next_in, is_owed FROM (
        SELECT first.due FROM unnest(numbers) AS asked (queue), LATERAL (
            SELECT due FROM ready WHERE ready.queue = asked.queue AND due > now_ms() ORDER BY due, seq LIMIT 1
        ) AS first
        UNION ALL
        (SELECT due FROM alarms WHERE due > 0 ORDER BY due LIMIT 1)
    ) AS next;
END $$;

CREATE OR REPLACE FUNCTION fire_alarms(due_runs text[], due_seqs bigint[], OUT fired bigint, OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    held text[] := ARRAY(SELECT id FROM runs WHERE id = ANY (due_runs) ORDER BY id FOR UPDATE SKIP LOCKED);
    names text[];
    entries bytea[];
BEGIN
    DELETE FROM alarms USING (
        SELECT DISTINCT id FROM unnest(due_runs) AS id WHERE NOT EXISTS (SELECT FROM runs WHERE runs.id = id.id OFFSET 0)
    ) AS gone
    WHERE alarms.run = ANY (ARRAY[gone.id]);
    WITH now AS (
        DELETE FROM alarms USING unnest(due_runs, due_seqs) AS due (run, seq)
        WHERE due.run = ANY (held) AND alarms.run = ANY (ARRAY[due.run]) AND alarms.seq = ANY (ARRAY[due.seq])
            AND alarms.due + 0 <= now_ms()
        RETURNING alarms.run, alarms.seq, alarms.due, alarms.alarm
    )
    SELECT count(*), array_agg(run ORDER BY due, run, seq), array_agg(convert_to('{"at":' || now_ms() || ',"event":'
            || CASE alarm WHEN 't' THEN '{"timer_fired":{"seq":' || seq || '}}'
                ELSE '{"activity_done":{"seq":' || seq || ',"result":{"failed":{"message":"not done in time","kind":'
                    || '{"timed_out":"schedule_to_close"}}}}}' END || '}', 'UTF8') ORDER BY due, run, seq)
    INTO fired, names, entries FROM now;
    woken := '{}';
    IF fired > 0 THEN
        PERFORM append_events(names, array_fill(1::smallint, ARRAY[fired::integer]), entries,
            array_fill(NULL::bytea, ARRAY[fired::integer]), array_fill(NULL::bigint, ARRAY[fired::integer]));
        woken := make_tasks(names);
    END IF;
END $$;
