-- A page of a worker's sessions. The unary plus makes SQLite use the index on the worker, which has
-- few sessions.
SELECT s.id, s.member, m.endpoint, m.offer, s.holder, s.connected, s.closing, s.keep, s.started_at, s.until, s.detail
FROM tidemill_sessions s LEFT JOIN tidemill_members m ON m.id = s.member
WHERE s.until > ?1 AND +s.id > ?2 AND s.member = ?4 ORDER BY +s.id LIMIT ?3
