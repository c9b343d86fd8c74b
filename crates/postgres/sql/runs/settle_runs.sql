-- Ends claims of tasks and of jobs that runs wait for. functions/settle_runs.sql documents the
-- locks. Leases are sorted, as in jobs/finish.sql.
--
-- $1 tokens   $2 ids   $3 whether to end only expired leases   $4 commits   $5 events   $6 effects
-- $7 the channel for notifications of ends, or null
SELECT ended, woken FROM tidemill.settle_runs($1, $2, $3, $4, $5, $6, $7)
