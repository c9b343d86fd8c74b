-- Starts a run. functions/start_run.sql documents the locks.
--
-- $1 id   $2 type   $3 version   $4 queue   $5 cursor   $6 kinds and $7 entries of its journal
-- $8 head   $9 opening
-- $10 key   $11 conflict policy   $12 parent   $13 its number in the parent   $14 retention in ms
-- $15 to $22 effects
SELECT outcome, other, woken FROM tidemill.start_run($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
    $18, $19, $20, $21, $22)
