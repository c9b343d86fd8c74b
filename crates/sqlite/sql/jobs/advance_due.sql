-- After the clock was set back: makes jobs due now that were due before the step. They are then
-- ordered by number. No index serves this statement, because clock steps are rare.
UPDATE tidemill_waiting SET due = ?1 WHERE (queue, due, seq) IN (
    SELECT queue, due, seq FROM tidemill_waiting WHERE due > ?1 AND due <= ?2 ORDER BY queue, due, seq LIMIT ?3)
