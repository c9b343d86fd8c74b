-- Deletes what a job waits for.
DELETE FROM tidemill_blocks WHERE waiter = ?1
