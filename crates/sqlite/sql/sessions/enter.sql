-- A session begins, in the place of one of the same id that has run out.
INSERT OR REPLACE INTO tidemill_sessions (id, member, holder, until, connected, keep, started_at, detail)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
