-- Ends whatever lease a job has.
DELETE FROM tidemill_running WHERE seq = ?1
