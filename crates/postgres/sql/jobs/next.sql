-- How long until the next scheduled job of any of these queues is due.
--
-- $1 queues   $2 deliveries
SELECT min(first.due) - now_ms() AS next_in
FROM unnest($1::text[], $2::smallint[]) AS asked (queue, delivery), LATERAL (
    SELECT due FROM ready
    WHERE ready.queue = asked.queue AND ready.delivery = asked.delivery AND due > now_ms()
    ORDER BY due, seq LIMIT 1
) AS first
