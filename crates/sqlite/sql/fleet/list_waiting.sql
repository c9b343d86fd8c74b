-- How many sessions wait, by kind and offer.
SELECT kind, offer, count(*) FROM tidemill_tickets WHERE until > ?1 GROUP BY kind, offer ORDER BY kind, offer
