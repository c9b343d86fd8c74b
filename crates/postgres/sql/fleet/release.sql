-- Ends sessions and waits; functions/release_sessions.sql says what it locks.
--
-- $1 sessions   $2 holders   $3 how long an order stands
SELECT ended, woken FROM tidemill.release_sessions($1, $2, $3)
