-- A session on a member has ended: there is a place, but one that is spent is ordered to drain.
UPDATE tidemill_members
SET full_until = 0, ordered_until = iif(most > 0 AND lifetime >= most, ?2, ordered_until)
WHERE id = ?1
