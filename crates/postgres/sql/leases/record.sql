-- Ends claims and keeps a record of each job in its place; functions/record_jobs.sql says what it locks. Leases come
-- sorted, as in finish.sql.
--
-- $1 tokens   $2 ids   $3 whether only those that have run out
-- $4 states   $5 outputs   $6 errors   $7 ends   $8 how long to keep, in ms
SELECT ended, woken FROM tidemill.record_jobs($1, $2, $3, $4, $5, $6, $7, $8)
