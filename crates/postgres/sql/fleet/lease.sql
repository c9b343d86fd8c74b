-- Gives a member to a session; functions/lease_member.sql says what it locks.
--
-- $1 session   $2 kind   $3 offers   $4 holder   $5 for how long   $6 how long it is kept   $7 detail   $8 refused members
-- $9 how many may wait   $10 for how long, or not at all   $11 how long an order stands
SELECT given, at_endpoint, by_offer, lasts, ahead, waiting, workers, woken
FROM tidemill.lease_member($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
