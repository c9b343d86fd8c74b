-- The id of a run's task, `order-7!task`, and whether a job is what a run goes on by: its task or an errand. Activities have
-- numbers, `order-7!3`. Locks nothing.
CREATE OR REPLACE FUNCTION task_id(run text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT run || '!task'
$$;

CREATE OR REPLACE FUNCTION carries_a_run(job text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT job ~ '.![a-z0-9]*[a-z][a-z0-9]*$'
$$;
