-- Gives a worker to a session. functions/lease_member.sql documents the locks.
--
-- $1 session   $2 kind   $3 offers   $4 holder   $5 lease in ms   $6 retention in ms   $7 detail
-- $8 rejected workers
-- $9 maximum number of waiting sessions   $10 wait in ms, or null
-- $11 how long an order stands, in ms
SELECT given, at_endpoint, by_offer, lasts, ahead, waiting, workers, woken
FROM tidemill.lease_member($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
