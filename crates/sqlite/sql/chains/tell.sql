-- Notes what a chain that closes tells, for each who waits for it.
UPDATE tidemill_blocks SET blocker = NULL, told = ?2 WHERE blocker = ?1 RETURNING waiter
