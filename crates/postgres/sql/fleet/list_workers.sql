-- A page of workers.
--
-- $1 the end of the previous page   $2 limit
SELECT id, offer, endpoint, status, concurrent, most, fresh, detail, beat_at, stale_at > now_ms() AS is_fresh,
    ordered_until > now_ms() AS ordered, lifetime,
    (SELECT count(*) FROM sessions WHERE member = members.id AND until > now_ms()) AS active
FROM members WHERE id > $1 ORDER BY id LIMIT $2
