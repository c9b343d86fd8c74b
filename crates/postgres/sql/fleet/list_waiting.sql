-- How many sessions wait, by kind and offer. The inner query finds the tickets by their time: the
-- order of another index would save a sort and cost a scan of all tickets.
SELECT kind, offer, count(*) AS waiting
FROM (SELECT kind, offer FROM tickets WHERE until > now_ms() OFFSET 0) AS live
GROUP BY kind, offer ORDER BY kind, offer
