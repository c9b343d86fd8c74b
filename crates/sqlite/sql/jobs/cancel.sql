-- Tells a running job's worker that it is not wanted any more.
UPDATE tidemill_running SET cancelling = 1 WHERE seq = ?1
