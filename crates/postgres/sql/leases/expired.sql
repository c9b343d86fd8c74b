-- A page of leases that have run out. Locks nothing: rescue looks again.
--
-- $1 queue   $2 and $3 where the page before ended   $4 at most
SELECT leases.seq, leases.id, jobs.step, leases.until, leases.started, leases.worker, jobs.envelope
FROM leases JOIN jobs ON jobs.id = ANY (ARRAY[leases.id])
WHERE leases.queue = $1 AND leases.until <= now_ms()
    AND (leases.until, leases.seq) > ($2, $3)
ORDER BY leases.until, leases.seq LIMIT $4
