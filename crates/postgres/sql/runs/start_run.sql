-- Starts a run. functions/start_run.sql documents the locks.
--
-- $1 the run   $2 kinds and $3 entries of its journal   $4 conflict policy   $5 effects
SELECT outcome, other, woken FROM tidemill.start_run($1, $2, $3, $4, $5)
