-- The same change as advance_due.sql, for the due time in `jobs`. It must run first.
UPDATE tidemill_jobs SET due = ?1 WHERE seq IN (
    SELECT seq FROM tidemill_waiting WHERE due > ?1 AND due <= ?2 ORDER BY queue, due, seq LIMIT ?3)
