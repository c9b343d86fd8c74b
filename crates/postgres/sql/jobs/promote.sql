-- Tells runs of their alarms, and how long until something is due; functions/promote.sql says what it locks.
--
-- $1 queues   $2 at most
SELECT fired, next_in, is_owed, woken FROM tidemill.promote($1, $2)
