-- The lines in which somebody waits. The inner part has the tickets found by their time: the order of another index would
-- save a sort and cost a walk over all.
SELECT kind, offer, count(*) AS waiting
FROM (SELECT kind, offer FROM tickets WHERE until > now_ms() OFFSET 0) AS live
GROUP BY kind, offer ORDER BY kind, offer
