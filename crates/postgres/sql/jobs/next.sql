-- How long until the next scheduled job of any of these queues is due, and whether anybody has yet to be released.
--
-- $1 queues
SELECT min(first.due) - now_ms() AS next_in, EXISTS (SELECT FROM owed WHERE chain > $$$$) AS owed
FROM unnest($1::integer[]) AS asked (queue), LATERAL (
    SELECT due FROM ready
    WHERE ready.queue = asked.queue AND due > now_ms()
    ORDER BY due, seq LIMIT 1
) AS first
