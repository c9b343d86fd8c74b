-- Members leave; functions/part_members.sql says what it locks.
--
-- $1 ids
SELECT part_members($1)
