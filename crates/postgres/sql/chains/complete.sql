-- Ends a job from outside; functions/seize.sql and functions/record_jobs.sql say what it locks.
--
-- $1 job   $2 state, none to forget the job   $3 output   $4 error   $5 end   $6 how long to keep, in ms
SELECT outcome, woken FROM complete_job($1, $2, $3, $4, $5, $6)
