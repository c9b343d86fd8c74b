-- A page of sessions.
--
-- $1 the end of the previous page   $2 limit
SELECT sessions.id, sessions.member, sessions.holder, sessions.connected, sessions.closing, sessions.keep,
    sessions.started_at, sessions.until, sessions.detail, members.endpoint, members.offer
FROM sessions LEFT JOIN members ON members.id = ANY (ARRAY[sessions.member])
WHERE sessions.id > $1 AND sessions.until + 0 > now_ms() ORDER BY sessions.id LIMIT $2
