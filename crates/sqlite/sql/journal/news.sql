-- The first events after a position, oldest first. What lies between are few commits: each follows what it consumed.
SELECT position, entry FROM tidemill_journal WHERE run = ?1 AND position > ?2 AND kind <> 'c' ORDER BY position LIMIT ?3
