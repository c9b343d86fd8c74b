-- Deletes closed runs. functions/prune_runs.sql documents the locks.
--
-- $1 how many runs of a type to keep   $2 minimum age in ms   $3 limit
-- $4 limit of journal entries
SELECT tidemill.prune_runs($1, $2, $3, $4) AS pruned
