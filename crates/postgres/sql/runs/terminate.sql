-- Ends a run from outside. functions/terminate_run.sql documents the locks.
--
-- $1 its end, as a commit   $2 the event for its parent, or null   $3 effects
SELECT outcome, woken FROM tidemill.terminate_run($1, $2, $3)
