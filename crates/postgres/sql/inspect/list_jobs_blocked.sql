-- A page of blocked jobs, the oldest first.
--
-- $1 queue   $2 (unused, as every page has a place) and $3 the end of the previous page   $4 limit
-- $5 how many of the chains each waits for to return
SELECT id, step, $2::bigint AS place, seq, envelope, NULL::text AS worker, false AS cancelling,
    ARRAY(SELECT chain FROM blocks WHERE job = jobs.id AND length(told) IS NULL ORDER BY position LIMIT $5) AS waits_for
FROM jobs
WHERE state = 1 AND queue = $1 AND seq > $3
ORDER BY seq LIMIT $4
