-- How many members of a kind and offers live. Names hold no spaces, so a list of them is text with a space around each.
SELECT count(*) FROM tidemill_members
WHERE kind = ?1 AND instr(?2, ' ' || offer || ' ') > 0 AND status = 'available' AND stale_at > ?3
