-- What to announce of jobs that have begun to wait for a worker, in the words of the wake channel. Locks nothing.
CREATE OR REPLACE FUNCTION wakes(numbers integer[], dues bigint[]) RETURNS text[]
LANGUAGE sql STABLE AS $$
    SELECT coalesce(array_agg(CASE WHEN woken.now
        THEN 'queue ' || queue.guarantee || ' ' || queue.name || ' ' || woken.jobs
        ELSE 'sooner ' || queue.guarantee || ' ' || queue.name END), '{}')
    FROM (
        SELECT number, due <= now_ms() AS now, count(*) AS jobs
        FROM unnest(numbers, dues) AS woken (number, due) GROUP BY 1, 2
    ) AS woken, LATERAL (
        SELECT name, CASE delivery WHEN 0 THEN 'at_most_once' ELSE 'at_least_once' END AS guarantee
        FROM queues WHERE queues.number = ANY (ARRAY[woken.number])
    ) AS queue
$$;
