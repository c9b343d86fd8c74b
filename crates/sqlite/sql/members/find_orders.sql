-- What a worker receives in reply to a heartbeat.
SELECT ordered_until > ?2, (SELECT count(*) FROM tidemill_sessions WHERE member = ?1 AND until > ?2), lifetime
FROM tidemill_members WHERE id = ?1
