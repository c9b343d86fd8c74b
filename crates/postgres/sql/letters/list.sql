-- A page of dead letters, the oldest first.
--
-- $1 queue   $2 delivery   $3 and $4 where the page before ended   $5 at most
SELECT id, due AS place, seq, envelope, NULL::text AS worker, false AS cancelling
FROM jobs
WHERE state = 2 AND queue = $1 AND delivery = $2 AND (due, seq) > ($3, $4)
ORDER BY due, seq LIMIT $5
