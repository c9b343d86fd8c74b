-- Deletes a journal.
DELETE FROM tidemill_journal WHERE run = ?1
