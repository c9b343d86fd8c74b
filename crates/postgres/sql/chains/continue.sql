-- Ends claims and replaces each job by the next step of its chain. functions/continue_jobs.sql
-- documents the locks. Leases are sorted, as in jobs/finish.sql.
--
-- $1 tokens   $2 ids   $3 whether to end only expired leases
-- $4 queues   $5 delays in ms   $6 earliest times, 0 for none   $7 envelopes
-- $8 index of the waiting job   $9 the chain
SELECT ended, woken FROM tidemill.continue_jobs($1, $2, $3, $4, $5, $6, $7, $8, $9)
