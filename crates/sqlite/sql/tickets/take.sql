-- A place at the end of a line, or before all others (?7); one that the session had elsewhere, or too long ago, is given up.
INSERT OR REPLACE INTO tidemill_tickets (number, session, kind, offer, holder, until, refused)
VALUES ((SELECT min(number) - 1 FROM tidemill_tickets WHERE ?7), ?1, ?2, ?3, ?4, ?5, ?6)
