-- Holders say what they hold; functions/attach_sessions.sql says what it locks.
--
-- $1 sessions   $2 members   $3 holders   $4 for how long   $5 how long they are kept   $6 whether they are connected
-- $7 whether they are taken over   $8 details   $9 when they began   $10 whether they must be known
SELECT answers, woken FROM tidemill.attach_sessions($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
