-- Registers and renews sessions. functions/attach_sessions.sql documents the locks.
--
-- $1 sessions   $2 workers   $3 holders   $4 lease in ms   $5 retentions in ms
-- $6 whether they are connected
-- $7 whether they are taken over   $8 details   $9 when they started   $10 whether they must exist
SELECT answers, woken FROM tidemill.attach_sessions($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
