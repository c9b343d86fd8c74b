-- Ends claims and replaces each job by the next step of its chain. functions/continue_jobs.sql
-- documents the locks. Leases are sorted, as in jobs/finish.sql.
--
-- $1 tokens   $2 ids   $3 whether to end only expired leases
-- $4 the next steps
SELECT ended, woken FROM tidemill.continue_jobs($1, $2, $3, $4)
