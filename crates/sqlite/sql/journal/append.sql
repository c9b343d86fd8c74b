-- Appends an entry. Its position was assigned under the same write lock.
INSERT INTO tidemill_journal (run, position, kind, entry) VALUES (?1, ?2, ?3, ?4)
