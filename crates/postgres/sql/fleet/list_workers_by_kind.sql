-- A page of workers of one kind.
--
-- $1 the end of the previous page   $2 limit   $3 kind
SELECT id, offer, endpoint, status, concurrent, most, fresh, detail, beat_at, stale_at > now_ms() AS is_fresh,
    ordered_until > now_ms() AS ordered, lifetime,
    (SELECT count(*) FROM sessions WHERE member = members.id AND until > now_ms()) AS active
FROM members WHERE kind || '' = $3 AND id || '' > $1 ORDER BY id || '' LIMIT $2
