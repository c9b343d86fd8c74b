-- Deletes the expired records among these ids, so that the ids can be used again before a prune.
-- functions/enqueue_jobs.sql documents the locks.
--
-- $1 ids
SELECT true AS done FROM forget($1)
