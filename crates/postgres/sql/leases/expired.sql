-- A page of leases that have run out, of all queues, and the time. Each row says how long it took to find the first, in
-- microseconds. Locks nothing: rescue looks again. There is always a row; one without a number says the time alone.
--
-- $1 and $2 where the page before ended, or before which there is nothing   $3 at most
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
