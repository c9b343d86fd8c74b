-- Marks a session as closing. Its holder is to end it.
UPDATE tidemill_sessions SET closing = 1 WHERE id = ?1
