-- A page of members.
--
-- $1 where the page before ended   $2 at most
SELECT id, offer, endpoint, status, concurrent, most, fresh, detail, beat_at, stale_at > now_ms() AS is_fresh,
    ordered_until > now_ms() AS ordered, lifetime,
    (SELECT count(*) FROM sessions WHERE member = members.id AND until > now_ms()) AS active
FROM members WHERE id > $1 ORDER BY id LIMIT $2
