-- Ends a run from outside. functions/terminate_run.sql documents the locks.
--
-- $1 run   $2 the last position of its journal   $3 status   $4 output   $5 error
-- $6 parent, or none, and the event for it: $7 kind   $8 entry   $9 id   $10 command
-- $11 to $18 effects
SELECT outcome, woken FROM tidemill.terminate_run($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
