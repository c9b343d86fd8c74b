-- Removes a waiting or blocked job, telling a run that waits for it, or marks the lease of a running one;
-- functions/cancel_job.sql says what it locks.
--
-- $1 chain
SELECT outcome, step, woken FROM cancel_job($1, true)
