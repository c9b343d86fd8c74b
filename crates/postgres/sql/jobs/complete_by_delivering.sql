-- Ends a job from outside and delivers an event to the run that waits for it. functions/seize.sql
-- and functions/settle_runs.sql document the locks.
--
-- $1 job   $2 run   $3 kind   $4 entry   $5 its id, or none   $6 the command it answers, or none
SELECT outcome, woken FROM complete_by_delivering($1, $2, $3, $4, $5, $6)
