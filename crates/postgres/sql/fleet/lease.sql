-- Gives a worker to a session. functions/lease_member.sql documents the locks.
--
-- $1 the request   $2 how long an order stands, in ms
SELECT given, at_endpoint, by_offer, lasts, ahead, waiting, workers, woken
FROM tidemill.lease_member($1, $2)
