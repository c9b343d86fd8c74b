-- Removes what is dead; functions/reap_fleet.sql says what it locks.
--
-- $1 how many of each at most   $2 how long an order stands
SELECT dead, sessions_over, waiting_over, woken FROM tidemill.reap_fleet($1, $2)
