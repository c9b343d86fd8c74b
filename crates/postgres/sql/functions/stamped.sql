-- A journal entry with the time of this server in it, whatever time the caller set. Bytes that are
-- no entry stay as they are: the same bytes as `with_timestamp` makes. Locks nothing.
CREATE OR REPLACE FUNCTION stamped(entry bytea) RETURNS bytea
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN substr(entry, 1, 6) = '{"at":'::bytea AND position(','::bytea IN entry) > 0
        THEN convert_to('{"at":' || now_ms(), 'UTF8') || substr(entry, position(','::bytea IN entry))
        ELSE entry END
$$;
