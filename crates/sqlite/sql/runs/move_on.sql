-- How far a run has come, and how long its journal is.
UPDATE tidemill_runs SET cursor = ?2, length = ?3 WHERE number = ?1
