-- Appends events. functions/deliver_events.sql documents the locks.
--
-- $1 runs   $2 kinds   $3 entries   $4 ids, or none   $5 the commands they answer, or none
SELECT answers, woken FROM tidemill.deliver_events($1, $2, $3, $4, $5)
