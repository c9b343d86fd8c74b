-- How many workers of a kind and offers have sent a heartbeat recently: the available ones, and
-- all. Names contain no spaces, so a list of names is text with a space around each.
SELECT count(*) FILTER (WHERE status = 'available'), count(*) FROM tidemill_members
WHERE kind = ?1 AND instr(?2, ' ' || offer || ' ') > 0 AND stale_at > ?3
