-- Orders a worker to drain. functions/drain_member.sql documents the locks.
--
-- $1 worker   $2 how long the order stands, in ms
SELECT was_there, woken FROM tidemill.drain_member($1, $2)
