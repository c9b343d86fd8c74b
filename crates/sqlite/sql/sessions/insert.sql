-- Inserts a session. It replaces an expired one with the same id.
INSERT OR REPLACE INTO tidemill_sessions (id, member, holder, until, connected, keep, started_at, detail)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
