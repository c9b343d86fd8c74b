-- Messages that were not consumed, once more, in their order, after the position that begins a new journal.
INSERT INTO tidemill_journal (run, position, kind, entry)
SELECT run, ?3 + row_number() OVER (ORDER BY position), kind, entry FROM tidemill_journal
WHERE run = ?1 AND position > ?2 AND kind = 'm'
