-- A member's sessions go with it.
DELETE FROM tidemill_sessions WHERE member = ?1
