-- When a lease ends, and whether its job is to be cancelled, if the lease is still the current one.
SELECT cancelling, until FROM tidemill_running WHERE seq = ?1 AND token = ?2
