-- Inserts a worker. Sessions that exist already, because their holders attached first, count in its
-- lifetime.
INSERT INTO tidemill_members
    (id, kind, offer, endpoint, status, concurrent, most, fresh, detail, beat_at, stale_at, grace_until, lifetime)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,
    (SELECT count(*) FROM tidemill_sessions WHERE member = ?1 AND until > ?10))
