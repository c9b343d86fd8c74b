-- Ends claims and keeps a record in the row of each job. functions/record_jobs.sql documents the
-- locks. Leases are sorted, as in finish.sql.
--
-- $1 tokens   $2 ids   $3 whether to end only expired leases
-- $4 states   $5 outputs   $6 errors   $7 ends   $8 retention in ms
SELECT ended, woken FROM tidemill.record_jobs($1, $2, $3, $4, $5, $6, $7, $8)
