-- The columns that a verb needs before it changes a run. The write lock is held, so they stay
-- valid.
SELECT number, status, cursor, length, keep, expires, last_commit FROM tidemill_runs WHERE id = ?1
