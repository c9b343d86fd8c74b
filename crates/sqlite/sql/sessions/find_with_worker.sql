-- The worker that a session already has, with its endpoint if it still exists.
SELECT s.member, s.keep, m.endpoint, m.offer
FROM tidemill_sessions s LEFT JOIN tidemill_members m ON m.id = s.member
WHERE s.id = ?1 AND s.until > ?2
