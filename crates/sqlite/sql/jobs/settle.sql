-- Ends a lease if it is the current one. This delete is the compare-and-set of every settlement: whoever
-- removes the row decides what becomes of the job.
DELETE FROM tidemill_running WHERE seq = ?1 AND token = ?2
