-- Removes the front of the line up to the last job claimed: one range, because claiming takes a prefix.
DELETE FROM tidemill_waiting WHERE queue = ?1 AND (due, seq) <= (?2, ?3)
