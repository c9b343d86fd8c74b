-- The chain of a job, `order-7` of `order-7~2`, and which step of it the job is. Locks nothing.
CREATE OR REPLACE FUNCTION chain_of(job text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT regexp_replace(job, '(.)~[1-9][0-9]{0,9}$', '\1')
$$;

CREATE OR REPLACE FUNCTION step_of(job text) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(substring(job FROM '.~([1-9][0-9]{0,9})$'), '0')::integer
$$;

CREATE OR REPLACE FUNCTION at_step(chain text, step integer) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE step WHEN 0 THEN chain ELSE chain || '~' || step END
$$;
