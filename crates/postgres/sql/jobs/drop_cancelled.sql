-- Ends claims of jobs that are to be cancelled, and removes the jobs. functions/drop_cancelled.sql
-- documents the locks. Leases are sorted, as in finish.sql.
--
-- $1 tokens   $2 ids   $3 whether to end only expired leases
SELECT ended, woken FROM tidemill.drop_cancelled($1, $2, $3)
