-- Removes dead workers, expired sessions and expired tickets. functions/reap_fleet.sql documents
-- the locks.
--
-- $1 limit for each kind   $2 how long an order stands, in ms
SELECT dead, sessions_over, waiting_over, woken FROM tidemill.reap_fleet($1, $2)
