-- Replaces the job whose lease was just deleted by the next step of its chain.
UPDATE tidemill_jobs SET queue = ?2, due = ?3, step = ?4, body = ?5 WHERE seq = ?1
