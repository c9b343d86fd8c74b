-- A page of waiting jobs: those that are due, or those that are scheduled.
--
-- $1 queue   $2 and $3 the end of the previous page   $4 limit   $5 whether they are due later
SELECT jobs.id, jobs.step, ready.due AS place, ready.seq, jobs.envelope, NULL::text AS worker, false AS cancelling,
    NULL::text[] AS waits_for
FROM ready JOIN jobs ON jobs.id = ANY (ARRAY[ready.id])
WHERE ready.queue = $1 AND (ready.due, ready.seq) > ($2, $3)
    AND ready.due > CASE WHEN $5 THEN now_ms() ELSE -1 END
    AND ready.due <= CASE WHEN $5 THEN 9223372036854775807 ELSE now_ms() END
ORDER BY ready.due, ready.seq LIMIT $4
