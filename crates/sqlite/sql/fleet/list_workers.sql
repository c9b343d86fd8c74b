-- A page of workers.
SELECT id, offer, endpoint, status, concurrent, most, fresh, detail, beat_at, stale_at > ?1, ordered_until > ?1,
    (SELECT count(*) FROM tidemill_sessions s WHERE s.member = m.id AND s.until > ?1), lifetime
FROM tidemill_members m WHERE id > ?2 ORDER BY id LIMIT ?3
