-- Releases those that wait for chains which were closed where they could not be seen; functions/release.sql says what
-- it locks.
--
-- $1 at most
SELECT tidemill.release_owed($1) AS woken
