-- Ends claims and puts the next step of each chain in the job's place; functions/continue_jobs.sql says what it locks.
-- Leases come sorted, as in finish.sql.
--
-- $1 tokens   $2 ids   $3 whether only those that have run out
-- $4 queues   $5 delays in ms   $6 earliest times, 0 for none   $7 envelopes   $8 which job waits   $9 for which chain
SELECT ended, woken FROM tidemill.continue_jobs($1, $2, $3, $4, $5, $6, $7, $8, $9)
