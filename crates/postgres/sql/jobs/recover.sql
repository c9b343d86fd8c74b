-- The leases of one worker in one queue that it does not know of. Locks nothing: the worker extends
-- them. There is no index on the worker: this runs only after a failed claim, and there are only as
-- many leases as running jobs.
--
-- $1 queue   $2 worker   $3 the numbers that it knows   $4 limit
SELECT leases.seq, leases.id, jobs.step, leases.started, jobs.envelope
FROM leases JOIN jobs ON jobs.id = ANY (ARRAY[leases.id])
WHERE leases.queue = $1 AND leases.worker = $2 AND leases.seq <> ALL ($3)
ORDER BY leases.seq LIMIT $4
