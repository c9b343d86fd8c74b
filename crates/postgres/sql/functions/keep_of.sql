-- For how many milliseconds a job's result is kept; nothing if it is not, and then nobody can wait for it. What
-- cannot be read as JSON here (a NUL in a text, another encoding) but speaks of keeping a result is believed to keep it
-- for as long as most. Locks nothing.
CREATE OR REPLACE FUNCTION keep_of(envelope bytea) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF position('"keep_result_ms"'::bytea IN envelope) = 0 THEN
        RETURN NULL;
    END IF;
    RETURN (convert_from(envelope, 'UTF8')::json ->> 'keep_result_ms')::bigint;
EXCEPTION WHEN OTHERS THEN
    RETURN 600000;
END $$;
