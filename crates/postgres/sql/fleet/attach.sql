-- Registers and renews sessions. functions/attach_sessions.sql documents the locks.
--
-- $1 sessions
SELECT answers, woken FROM tidemill.attach_sessions($1)
