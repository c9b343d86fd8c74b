-- How far a run has come, how long its journal is, and its last commit.
UPDATE tidemill_runs SET cursor = ?2, length = ?3, last_commit = ?4 WHERE number = ?1
