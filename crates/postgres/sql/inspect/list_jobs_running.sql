-- A page of running jobs, the lease that ends first at the front.
--
-- $1 queue   $2 and $3 the end of the previous page   $4 limit
SELECT jobs.id, jobs.step, leases.until AS place, leases.seq, jobs.envelope, leases.worker, leases.cancelling,
    NULL::text[] AS waits_for
FROM leases JOIN jobs ON jobs.id = ANY (ARRAY[leases.id])
WHERE leases.queue = $1 AND (leases.until, leases.seq) > ($2, $3)
ORDER BY leases.until, leases.seq LIMIT $4
