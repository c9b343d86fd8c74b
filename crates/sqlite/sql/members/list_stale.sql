-- Workers without a recent heartbeat, the most stale first.
SELECT id FROM tidemill_members WHERE stale_at <= ?1 ORDER BY stale_at LIMIT ?2
