-- What a verb has to know of a run before it changes it. The write lock is held, so it stays as it is.
SELECT number, status, cursor, length, keep, expires, last_commit FROM tidemill_runs WHERE id = ?1
