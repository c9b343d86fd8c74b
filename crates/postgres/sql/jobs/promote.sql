-- Fires due alarms, and returns how long until something is due. functions/promote.sql documents
-- the locks.
--
-- $1 queues   $2 limit
SELECT fired, next_in, is_owed, woken FROM tidemill.promote($1, $2)
