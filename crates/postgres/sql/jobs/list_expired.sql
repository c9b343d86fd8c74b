-- A page of expired leases of all queues, and the time. Each row contains how long it took to find
-- the first, in microseconds. Locks nothing: rescue checks again. There is always a row; one
-- without a number contains only the time.
--
-- $1 and $2 the end of the previous page, or a position before which there is none   $3 limit
SELECT late.*, now_ms() AS now,
    (extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000000)::bigint AS took
FROM (SELECT 1) AS always LEFT JOIN (
    SELECT leases.seq, leases.id, jobs.step, leases.until, leases.started, leases.worker, jobs.envelope,
        queues.name, queues.delivery
    FROM leases JOIN jobs ON jobs.id = ANY (ARRAY[leases.id]) JOIN queues ON queues.number = ANY (ARRAY[leases.queue])
    WHERE leases.until <= now_ms() AND (leases.until, leases.seq) > ($1, $2)
    ORDER BY leases.until, leases.seq LIMIT $3
) AS late ON true
ORDER BY late.until, late.seq
