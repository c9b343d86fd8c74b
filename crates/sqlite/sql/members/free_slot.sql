-- A session on a worker has ended, so the worker is not full. A worker that has had all its
-- sessions is ordered to drain.
UPDATE tidemill_members
SET full_until = 0, ordered_until = iif(most > 0 AND lifetime >= most, ?2, ordered_until)
WHERE id = ?1
