-- For how many milliseconds a job's result is kept; null if it is not, and then no job can wait for
-- it. It must never return a number where a worker reads none: that worker would close the chain
-- without notifying its waiters. So an unreadable envelope means null. Bytes are read as LATIN1,
-- which accepts any, and every escape is replaced by one that text can hold: only one number
-- matters. Locks nothing.
CREATE OR REPLACE FUNCTION keep_of(envelope bytea) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF position('"keep_result_ms"'::bytea IN envelope) = 0 THEN
        RETURN NULL;
    END IF;
    -- At most 100 years, as clients read it: other programs may write any number.
    RETURN (SELECT least(kept, 3153600000000)::bigint
        FROM (SELECT (regexp_replace(convert_from(envelope, 'LATIN1'), '\\u[0-9a-fA-F]{4}', '\\u0001', 'g')::json
            ->> 'keep_result_ms')::numeric) AS read (kept) WHERE kept IS NOT NULL);
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;

-- The run that waits for a job, and the number of its command; null if none does. Read like the
-- time above. Locks nothing.
CREATE OR REPLACE FUNCTION asker_of(envelope bytea, OUT run text, OUT seq bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    body json;
BEGIN
    IF position('"run"'::bytea IN envelope) = 0 THEN
        RETURN;
    END IF;
    body := regexp_replace(convert_from(envelope, 'LATIN1'), '\\u[0-9a-fA-F]{4}', '\\u0001', 'g')::json;
    seq := (body ->> 'seq')::bigint;
    run := CASE WHEN seq IS NOT NULL THEN body ->> 'run' END;
EXCEPTION WHEN OTHERS THEN
    run := NULL;
END $$;
