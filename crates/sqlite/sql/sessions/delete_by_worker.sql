-- Deletes the sessions of a worker.
DELETE FROM tidemill_sessions WHERE member = ?1
