-- The wake-ups for jobs that have become waiting, in the texts of the wake channel. Locks nothing.
-- Not in the language SQL, whose functions are planned anew in every statement that calls them.
CREATE OR REPLACE FUNCTION wakes(numbers integer[], dues bigint[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    IF numbers IS NULL THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(
        SELECT CASE WHEN woken.now
            THEN 'queue ' || queue.guarantee || ' ' || queue.name || ' ' || woken.jobs
            ELSE 'sooner ' || queue.guarantee || ' ' || queue.name END
        FROM (
            SELECT number, due <= now_ms() AS now, count(*) AS jobs
            FROM unnest(numbers, dues) AS woken (number, due) GROUP BY 1, 2
        ) AS woken, LATERAL (
            SELECT name, CASE delivery WHEN 0 THEN 'at_most_once' ELSE 'at_least_once' END AS guarantee
            FROM queues WHERE queues.number = ANY (ARRAY[woken.number])
        ) AS queue
    );
END $$;
