-- Members that have not beaten, those first that have not for the longest.
SELECT id FROM tidemill_members WHERE stale_at <= ?1 ORDER BY stale_at LIMIT ?2
