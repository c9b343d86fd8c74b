-- Tells a running job's worker that it is not wanted any more.
UPDATE running SET cancelling = 1 WHERE seq = ?1
