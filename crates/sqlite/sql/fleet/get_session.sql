-- One session.
SELECT s.id, s.member, m.endpoint, m.offer, s.holder, s.connected, s.closing, s.keep, s.started_at, s.until, s.detail
FROM tidemill_sessions s LEFT JOIN tidemill_members m ON m.id = s.member
WHERE s.until > ?1 AND s.id = ?2
