-- Ends whatever lease a job has.
DELETE FROM running WHERE seq = ?1
