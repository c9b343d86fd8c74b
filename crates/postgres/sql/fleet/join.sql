-- Enters workers. functions/join_members.sql documents the locks.
--
-- $1 workers
SELECT woken FROM tidemill.join_members($1)
