-- Removes a waiting or blocked job and notifies a run that waits for it, or marks the lease of a
-- running one. functions/cancel_job.sql documents the locks.
--
-- $1 chain
SELECT outcome, step, woken FROM cancel_job($1, true)
