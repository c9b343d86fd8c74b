-- The jobs of advance.sql have the same time where they are looked up by their id. This one comes first.
UPDATE tidemill_jobs SET due = ?1 WHERE seq IN (
    SELECT seq FROM tidemill_waiting WHERE due > ?1 AND due <= ?2 ORDER BY queue, due, seq LIMIT ?3)
