-- A page of dead letters, the oldest first.
--
-- $1 queue   $2 and $3 the end of the previous page   $4 limit
SELECT id, step, due AS place, seq, envelope, NULL::text AS worker, false AS cancelling,
    NULL::text[] AS waits_for
FROM jobs
WHERE state = 2 AND queue = $1 AND (due, seq) > ($2, $3)
ORDER BY due, seq LIMIT $4
