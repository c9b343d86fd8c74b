-- Takes the oldest jobs that are due, or says when the next one will be.
--
-- Locks the rows of `ready` it is about to delete and skips those another claim has locked, so claims never
-- wait for one another. Rows are found again by ctid: they are locked, so they cannot have moved.
--
-- $1 queue   $2 delivery   $3 worker   $4 lease in ms   $5 at most   $6 how many of them start at once
WITH picked AS MATERIALIZED (
    SELECT ctid FROM ready
    WHERE queue = $1 AND delivery = $2 AND due <= now_ms()
        AND NOT EXISTS (SELECT FROM queues WHERE name = $1 AND delivery = $2 AND paused)
    ORDER BY due, seq
    LIMIT $5
    FOR UPDATE SKIP LOCKED
),
numbered AS MATERIALIZED (SELECT ctid AS place, row_number() OVER () AS number FROM picked),
taken AS (
    DELETE FROM ready USING numbered WHERE ready.ctid = numbered.place
    RETURNING ready.seq, ready.id, numbered.number
),
leased AS (
    INSERT INTO leases (seq, until, delivery, started, queue, id, worker)
    SELECT seq, clock.now + $4, $2, number <= $6, $1, id, $3
    FROM taken, (SELECT now_ms() AS now OFFSET 0) AS clock
    RETURNING seq
)
SELECT taken.number, taken.seq, taken.id, jobs.envelope, NULL::bigint AS next_in
FROM taken JOIN jobs ON jobs.id = ANY (ARRAY[taken.id])
UNION ALL
SELECT NULL, NULL, NULL, NULL, (
    SELECT due - now_ms() FROM ready
    WHERE queue = $1 AND delivery = $2 AND due > now_ms()
    ORDER BY due, seq LIMIT 1
) WHERE NOT EXISTS (SELECT FROM picked)
