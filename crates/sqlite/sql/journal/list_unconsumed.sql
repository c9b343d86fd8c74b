-- The first events after a position, the oldest first. There are few commits in between: each
-- follows the events that it consumed.
SELECT position, entry FROM tidemill_journal WHERE run = ?1 AND position > ?2 AND kind <> 'c' ORDER BY position LIMIT ?3
