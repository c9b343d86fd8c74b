-- Stores the end of a run.
UPDATE tidemill_runs SET status = ?2, closed = ?3, expires = ?4, output = ?5, error = ?6 WHERE number = ?1
