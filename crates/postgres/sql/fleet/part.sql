-- Removes workers. functions/part_members.sql documents the locks.
--
-- $1 ids
SELECT tidemill.part_members($1)
