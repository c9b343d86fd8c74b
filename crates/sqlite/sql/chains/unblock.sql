-- A job that waits for no chain any more.
DELETE FROM tidemill_blocked WHERE seq = ?1
