-- Asks for the end of a session. functions/close_session.sql documents the locks.
--
-- $1 session   $2 how long an order stands, in ms
SELECT was_there, woken FROM tidemill.close_session($1, $2)
