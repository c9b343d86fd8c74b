-- Deletes a lease if it is the current one. This delete is the compare-and-set of every settlement:
-- the caller that deletes the row decides what happens to the job.
DELETE FROM tidemill_running WHERE seq = ?1 AND token = ?2
