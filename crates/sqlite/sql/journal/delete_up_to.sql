-- Deletes a journal up to a position.
DELETE FROM tidemill_journal WHERE run = ?1 AND position <= ?2
