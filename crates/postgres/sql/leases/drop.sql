-- Ends claims of jobs that are to be cancelled, and removes these; functions/drop_cancelled.sql says what it locks.
-- Leases come sorted, as in finish.sql.
--
-- $1 tokens   $2 ids   $3 whether only those that have run out
SELECT ended, woken FROM tidemill.drop_cancelled($1, $2, $3)
