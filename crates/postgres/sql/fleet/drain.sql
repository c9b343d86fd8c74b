-- Orders a member to drain; functions/drain_member.sql says what it locks.
--
-- $1 member   $2 how long the order stands
SELECT was_there, woken FROM tidemill.drain_member($1, $2)
