-- Marks a leased job as started, if the lease is still the current one.
UPDATE tidemill_running SET started = 1 WHERE seq = ?1 AND token = ?2
