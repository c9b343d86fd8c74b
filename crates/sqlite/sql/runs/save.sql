-- Stores the cursor, the journal length and the last commit of a run.
UPDATE tidemill_runs SET cursor = ?2, length = ?3, last_commit = ?4 WHERE number = ?1
