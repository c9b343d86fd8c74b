-- A page of workers of one kind.
SELECT id, offer, endpoint, status, concurrent, most, fresh, detail, beat_at, stale_at > ?1, ordered_until > ?1,
    (SELECT count(*) FROM tidemill_sessions s WHERE s.member = m.id AND s.until > ?1), lifetime
FROM tidemill_members m WHERE kind = ?4 AND id > ?2 ORDER BY id LIMIT ?3
