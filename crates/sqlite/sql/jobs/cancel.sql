-- Marks a running job as cancelling. Its worker sees the mark when it extends the lease.
UPDATE tidemill_running SET cancelling = 1 WHERE seq = ?1
