-- A page of a worker's sessions. They are found by the worker, which has few.
--
-- $1 the end of the previous page   $2 limit   $3 member
SELECT sessions.id, sessions.member, sessions.holder, sessions.connected, sessions.closing, sessions.keep,
    sessions.started_at, sessions.until, sessions.detail, members.endpoint, members.offer
FROM sessions LEFT JOIN members ON members.id = ANY (ARRAY[sessions.member])
WHERE sessions.member = $3 AND sessions.until > now_ms() AND sessions.id || '' > $1
ORDER BY sessions.id || '' LIMIT $2
