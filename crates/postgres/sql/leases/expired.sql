-- A page of leases that have run out. Locks nothing: rescue looks again.
--
-- $1 queue   $2 delivery   $3 and $4 where the page before ended   $5 at most
SELECT leases.seq, leases.id, leases.until, leases.started, leases.worker, jobs.envelope
FROM leases JOIN jobs ON jobs.id = ANY (ARRAY[leases.id])
WHERE leases.queue = $1 AND leases.delivery = $2 AND leases.until <= now_ms()
    AND (leases.until, leases.seq) > ($3, $4)
ORDER BY leases.until, leases.seq LIMIT $5
