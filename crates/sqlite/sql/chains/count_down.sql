-- One chain less that a job waits for. Whoever gets to zero unblocks it.
UPDATE tidemill_blocked SET open = open - 1 WHERE seq = ?1 RETURNING open
