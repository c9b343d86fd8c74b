-- Stores the notice of a closing chain for each job that waits for it.
UPDATE tidemill_blocks SET blocker = NULL, told = ?2 WHERE blocker = ?1 RETURNING waiter
