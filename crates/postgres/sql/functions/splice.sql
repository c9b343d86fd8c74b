-- An envelope with the notices of its job's blockers, before the last brace: the same bytes as
-- `with_blockers` makes. The letter in front keeps leading white space, which must not be trimmed.
-- Locks nothing.
CREATE OR REPLACE FUNCTION splice(envelope bytea, told bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT substring(trimmed FROM 2 FOR length(trimmed) - 2) || ',"blockers":['::bytea || told || ']}'::bytea
    FROM btrim('x'::bytea || envelope, '\x20090a0c0d'::bytea) AS trimmed
$$;
