-- Removes closed runs; functions/prune_runs.sql says what it locks.
--
-- $1 how many of a type are kept   $2 and how young ones, in ms   $3 at most   $4 of about so many entries
SELECT tidemill.prune_runs($1, $2, $3, $4) AS pruned
