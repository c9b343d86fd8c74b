-- Ends sessions and waits. functions/release_sessions.sql documents the locks.
--
-- $1 sessions   $2 holders   $3 how long an order stands, in ms
SELECT ended, woken FROM tidemill.release_sessions($1, $2, $3)
