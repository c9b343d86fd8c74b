-- Heartbeats of workers. functions/beat_members.sql documents the locks.
--
-- $1 workers   $2 grace time of a new worker in ms
SELECT drains, actives, lifetimes, woken FROM tidemill.beat_members($1, $2)
