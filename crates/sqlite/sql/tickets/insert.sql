-- Adds a session at the end of a line, or at its front if ?7. It replaces the session's ticket in
-- another line, or an expired one.
INSERT OR REPLACE INTO tidemill_tickets (number, session, kind, offer, holder, until, refused)
VALUES ((SELECT min(number) - 1 FROM tidemill_tickets WHERE ?7), ?1, ?2, ?3, ?4, ?5, ?6)
