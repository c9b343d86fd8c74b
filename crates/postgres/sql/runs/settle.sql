-- Ends claims of tasks and of jobs that runs wait for; functions/settle_runs.sql says what it locks. Leases come sorted,
-- as in leases/finish.sql.
--
-- $1 tokens   $2 ids   $3 whether only those that have run out   $4 the last phase
-- $5 to $14 commits   $15 to $22 events   $23 to $30 effects
SELECT ended, woken FROM settle_runs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
    $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30)
