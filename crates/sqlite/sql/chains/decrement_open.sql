-- Counts one open chain less that a job waits for. The caller that reaches zero unblocks the job.
UPDATE tidemill_blocked SET open = open - 1 WHERE seq = ?1 RETURNING open
