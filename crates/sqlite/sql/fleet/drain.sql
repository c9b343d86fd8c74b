-- Orders a worker to drain.
UPDATE tidemill_members SET ordered_until = ?2 WHERE id = ?1
