-- Enters workers. functions/join_members.sql documents the locks.
--
-- $1 ids   $2 kinds   $3 offers   $4 endpoints   $5 statuses   $6 sessions at once   $7 in all
-- $8 heartbeat timeouts in ms
-- $9 details
SELECT woken FROM tidemill.join_members($1, $2, $3, $4, $5, $6, $7, $8, $9)
