-- Jobs that were due before the clock was set back are due. Their order is that of their numbers then. No index serves this:
-- it happens when somebody sets a clock.
UPDATE tidemill_waiting SET due = ?1 WHERE (queue, due, seq) IN (
    SELECT queue, due, seq FROM tidemill_waiting WHERE due > ?1 AND due <= ?2 ORDER BY queue, due, seq LIMIT ?3)
