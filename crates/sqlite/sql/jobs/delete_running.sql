-- Deletes the lease of a job, whatever its token.
DELETE FROM tidemill_running WHERE seq = ?1
