-- A page of sessions. The unary plus keeps SQLite from using the index on `until`, so that the page
-- is in the order of ids.
SELECT s.id, s.member, m.endpoint, m.offer, s.holder, s.connected, s.closing, s.keep, s.started_at, s.until, s.detail
FROM tidemill_sessions s LEFT JOIN tidemill_members m ON m.id = s.member
WHERE +s.until > ?1 AND s.id > ?2 ORDER BY s.id LIMIT ?3
