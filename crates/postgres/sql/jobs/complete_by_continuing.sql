-- Ends a job from outside and replaces it by the next of its chain. functions/seize.sql and
-- functions/continue_jobs.sql document the locks.
--
-- $1 job   $2 queue   $3 delay in ms   $4 earliest time, 0 for none   $5 envelope
-- $6 chains it waits for
SELECT outcome, woken FROM complete_by_continuing($1, $2, $3, $4, $5, $6)
