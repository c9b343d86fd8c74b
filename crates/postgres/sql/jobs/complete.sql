-- Ends a job from outside. functions/seize.sql and functions/record_jobs.sql document the locks.
--
-- $1 job   $2 state, null to keep no record   $3 output   $4 error   $5 end   $6 retention in ms
SELECT outcome, woken FROM complete_job($1, $2, $3, $4, $5, $6)
