-- How many members of a kind and offers have beaten recently: those that are available, and all. Names hold no spaces, so a list of
-- them is text with a space around each.
SELECT count(*) FILTER (WHERE status = 'available'), count(*) FROM tidemill_members
WHERE kind = ?1 AND instr(?2, ' ' || offer || ' ') > 0 AND stale_at > ?3
