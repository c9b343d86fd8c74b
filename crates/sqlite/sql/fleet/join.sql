-- Inserts a worker. Sessions that exist already, because their holders attached first, count in its
-- lifetime.
INSERT INTO tidemill_members
    (id, kind, offer, endpoint, status, concurrent, most, fresh, detail, beat_at, stale_at, grace_until, lifetime)
VALUES (:id, :kind, :offer, :endpoint, :status, :concurrent, :most, :fresh, :detail, :now, :stale_at, :grace_until,
    (SELECT count(*) FROM tidemill_sessions WHERE member = :id AND until > :now))
