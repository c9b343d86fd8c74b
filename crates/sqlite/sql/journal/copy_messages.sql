-- Copies unconsumed messages, in order, after the first position of the new journal.
INSERT INTO tidemill_journal (run, position, kind, entry)
SELECT run, ?3 + row_number() OVER (ORDER BY position), kind, entry FROM tidemill_journal
WHERE run = ?1 AND position > ?2 AND kind = 'm'
