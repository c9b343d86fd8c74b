-- The notice that a job receives about a chain: the same bytes as `Blocker::notice` makes. Locks
-- nothing.
CREATE OR REPLACE FUNCTION told(chain text, state smallint, output bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT convert_to('{"chain":' || to_json(chain) || ',"state":"'
            || CASE state WHEN 3 THEN 'done' ELSE 'cancelled' END || '","output":', 'UTF8')
        || CASE WHEN length(output) = 0 THEN 'null'::bytea ELSE output END || '}'::bytea
$$;
