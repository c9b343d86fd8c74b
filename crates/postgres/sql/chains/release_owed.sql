-- Unblocks the jobs that wait for chains which were closed by transactions that could not see them.
-- functions/release.sql documents the locks.
--
-- $1 limit
SELECT tidemill.release_owed($1) AS woken
