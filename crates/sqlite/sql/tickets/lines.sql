-- The lines in which somebody waits.
SELECT kind, offer, count(*) FROM tidemill_tickets WHERE until > ?1 GROUP BY kind, offer ORDER BY kind, offer
