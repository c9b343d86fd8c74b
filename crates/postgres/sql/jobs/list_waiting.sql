-- A page of waiting jobs: those that are due, or those that are not yet.
--
-- $1 queue   $2 delivery   $3 and $4 where the page before ended   $5 at most   $6 whether they are due later
SELECT jobs.id, ready.due AS place, ready.seq, jobs.envelope, NULL::text AS worker, false AS cancelling
FROM ready JOIN jobs ON jobs.id = ANY (ARRAY[ready.id])
WHERE ready.queue = $1 AND ready.delivery = $2 AND (ready.due, ready.seq) > ($3, $4)
    AND ready.due > CASE WHEN $6 THEN now_ms() ELSE -1 END
    AND ready.due <= CASE WHEN $6 THEN 9223372036854775807 ELSE now_ms() END
ORDER BY ready.due, ready.seq LIMIT $5
