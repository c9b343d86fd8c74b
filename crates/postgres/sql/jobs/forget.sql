-- Removes the records among these ids whose time is over, so that the ids can be used again before prune has
-- come by. functions/enqueue_jobs.sql says what it locks.
--
-- $1 ids
SELECT true AS done FROM forget($1)
