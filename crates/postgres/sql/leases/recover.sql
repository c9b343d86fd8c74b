-- The leases of one worker in one queue that it does not know of. Locks nothing: whoever gets them extends them. No index
-- has leases by worker: this is asked after a claim has failed, and there are as many leases as workers hold jobs.
--
-- $1 queue   $2 worker   $3 the numbers it knows   $4 at most
SELECT leases.seq, leases.id, jobs.step, leases.started, jobs.envelope
FROM leases JOIN jobs ON jobs.id = ANY (ARRAY[leases.id])
WHERE leases.queue = $1 AND leases.worker = $2 AND leases.seq <> ALL ($3)
ORDER BY leases.seq LIMIT $4
