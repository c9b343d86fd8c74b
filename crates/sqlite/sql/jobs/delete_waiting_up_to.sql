-- Deletes a queue's waiting jobs up to the last claimed one: one range, because a claim takes a
-- prefix.
DELETE FROM tidemill_waiting WHERE queue = ?1 AND (due, seq) <= (?2, ?3)
