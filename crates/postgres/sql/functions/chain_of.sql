-- The chain of a job, `order-7` of `order-7~2`, and the step of the job: a number that fits into 32
-- bits, as elsewhere; anything else is an id by itself. No chain reaches 31 bits, so a greater step
-- may count as the last of those. Locks nothing.
CREATE OR REPLACE FUNCTION chain_of(job text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN substring(job FROM '.~([1-9][0-9]{0,9})$')::bigint <= 4294967295
        THEN regexp_replace(job, '~[0-9]+$', '') ELSE job END
$$;

CREATE OR REPLACE FUNCTION step_of(job text) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN step <= 4294967295 THEN least(step, 2147483647)::integer ELSE 0 END
    FROM CAST(substring(job FROM '.~([1-9][0-9]{0,9})$') AS bigint) AS step
$$;

CREATE OR REPLACE FUNCTION at_step(chain text, step integer) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE step WHEN 0 THEN chain ELSE chain || '~' || step END
$$;
