-- What a job that waited for a chain is told: the same bytes as `Blocker::told_by` makes. Locks nothing.
CREATE OR REPLACE FUNCTION told(chain text, state smallint, output bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT convert_to('{"chain":' || to_json(chain) || ',"state":"'
            || CASE state WHEN 3 THEN 'done' ELSE 'cancelled' END || '","output":', 'UTF8')
        || CASE WHEN length(output) = 0 THEN 'null'::bytea ELSE output END || '}'::bytea
$$;
