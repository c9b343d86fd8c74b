-- One worker.
--
-- $1 id
SELECT id, offer, endpoint, status, concurrent, most, fresh, detail, beat_at, stale_at > now_ms() AS is_fresh,
    ordered_until > now_ms() AS ordered, lifetime,
    (SELECT count(*) FROM sessions WHERE member = members.id AND until > now_ms()) AS active
FROM members WHERE id = $1
