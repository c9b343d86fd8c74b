-- The id of a run's task, `order-7!task`, and whether a job is internal to a run: its task or a
-- remote command. Activities have numbers, `order-7!3`. Locks nothing.
CREATE OR REPLACE FUNCTION task_id(run text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT run || '!task'
$$;

CREATE OR REPLACE FUNCTION carries_a_run(job text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT job ~ '.![a-z0-9]*[a-z][a-z0-9]*$'
$$;
