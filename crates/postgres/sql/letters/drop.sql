-- Deletes letters for good; functions/drop_letters.sql says what it locks.
--
-- $1 queue   $2 chains
SELECT dropped, woken FROM tidemill.drop_letters($1, $2)
