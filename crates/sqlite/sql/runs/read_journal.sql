-- A part of a journal.
SELECT position, kind, entry FROM tidemill_journal
WHERE run = (SELECT number FROM tidemill_runs WHERE id = ?1) AND position >= ?2
ORDER BY position LIMIT ?3
