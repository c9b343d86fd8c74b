-- Members leave; functions/part_members.sql says what it locks.
--
-- $1 ids
SELECT tidemill.part_members($1)
