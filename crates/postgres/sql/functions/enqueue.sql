-- Enqueues a job, inside the caller's transaction: for programs in any language. Returns its id, or
-- that of the chain that it duplicates. Workers are notified when the transaction commits, and
-- never if it does not. Locks what enqueue_jobs locks, and for the first job of a queue also the
-- queue's name.
CREATE OR REPLACE FUNCTION enqueue(queue text, kind text, payload json DEFAULT 'null', delay interval DEFAULT '0',
    id text DEFAULT NULL, max_attempts integer DEFAULT 5, keep_result interval DEFAULT NULL, dedup text DEFAULT NULL,
    after_chains text[] DEFAULT '{}') RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    job text := coalesce(id, new_id());
    keep bigint := ms(CASE WHEN dedup IS NULL THEN keep_result ELSE coalesce(keep_result, '10 minutes') END);
    bad text := CASE
        WHEN queue IS NULL OR queue !~ '^[A-Za-z0-9._/-]{1,128}$' THEN 'the queue is not a valid name'
        WHEN kind IS NULL OR kind !~ '^[A-Za-z0-9._/:-]{1,128}$' THEN 'the kind is not a valid name'
        WHEN job !~ '^[!-~]{1,117}$' OR step_of(job) > 0 THEN 'the id is not a valid one'
        WHEN job ~ '.![a-z0-9]+$' THEN 'the id is not a valid one: what ends in `!` and a word or a number belongs to a run'
        WHEN dedup IS NOT NULL AND id IS NOT NULL THEN 'a job with a dedup key cannot have an id of its own'
        WHEN octet_length(dedup) NOT BETWEEN 1 AND 256 THEN 'the dedup key must have 1 to 256 bytes'
        WHEN max_attempts IS NULL OR max_attempts < 1 THEN 'max_attempts must be at least 1'
        WHEN keep NOT BETWEEN 0 AND 3153600000000 THEN 'keep_result must be from 0 to 100 years'
        WHEN delay IS NULL OR ms(delay) > 3153600000000 THEN 'the delay must be at most 100 years'
        WHEN octet_length(payload::text) > payload_limit()
            THEN 'the payload must have at most ' || payload_limit() || ' bytes'
        WHEN after_chains IS NULL OR array_position(after_chains, NULL) IS NOT NULL
            THEN 'after_chains must name chains, or be empty'
        WHEN cardinality(after_chains) > 1000 THEN 'after_chains must name at most 1000 chains' END;
    target integer;
    done record;
BEGIN
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'TM003', MESSAGE = bad;
    END IF;
    target := number_of(queue);
    done := enqueue_jobs(target, ARRAY[job], ARRAY[greatest(ms(delay), 0)], ARRAY[0::bigint],
        ARRAY[convert_to('{"job_id":' || to_json(job) || ',"task_type":' || to_json(kind)
            || ',"attempts":0,"max_attempts":' || max_attempts || ',"payload":' || coalesce(payload, 'null')
            || ',"meta":{"enqueue_ts":"' || to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
            || '","source":"sql"}' || coalesce(',"keep_result_ms":' || keep, '') || '}', 'UTF8')],
        CASE WHEN dedup IS NULL THEN '{}' ELSE ARRAY[dedup] END, ARRAY[false], ARRAY[NULL::bigint],
        array_fill(1, ARRAY[cardinality(after_chains)]), after_chains);
    IF done.made[1] = 0 THEN
        PERFORM tell(wakes(ARRAY[target], ARRAY[now_ms() + ms(delay)]));
    END IF;
    RETURN coalesce(done.others[1], job);
END $$;

-- The maximum number of bytes of a payload: the default of `Limits`, or the setting
-- `tidemill.max_payload` of the session, its role or the database, such as '4MB'.
CREATE OR REPLACE FUNCTION payload_limit() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(pg_size_bytes(nullif(current_setting('tidemill.max_payload', true), '')), 1048576)
$$;

-- A duration in milliseconds, rounded up so that nothing is early.
CREATE OR REPLACE FUNCTION ms(duration interval) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ceil(extract(epoch FROM duration) * 1000)::bigint
$$;

-- A new id: a UUID of version 7, so that later ids sort later.
CREATE OR REPLACE FUNCTION new_id() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT substr(time, 1, 8) || '-' || substr(time, 9, 4) || '-7' || substr(gen_random_uuid()::text, 16)
    FROM lpad(to_hex(now_ms()), 12, '0') AS time
$$;

-- The number of an at-least-once queue. It is assigned if the queue is new.
CREATE OR REPLACE FUNCTION number_of(queue text) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    found_ integer;
BEGIN
    SELECT number INTO found_ FROM queues WHERE name = queue AND delivery = 1;
    IF NOT FOUND THEN
        INSERT INTO queues (name, delivery) VALUES (queue, 1) ON CONFLICT DO NOTHING;
        SELECT number INTO found_ FROM queues WHERE name = queue AND delivery = 1;
    END IF;
    RETURN found_;
END $$;

-- Notifies listeners when the transaction commits. Commits that notify are serialized, which is why
-- the store itself notifies after its commits.
CREATE OR REPLACE FUNCTION tell(woken text[]) RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT pg_notify(current_schema() || '_wake', word) FROM unnest(woken) AS word WHERE word <> 'owed'
$$;
