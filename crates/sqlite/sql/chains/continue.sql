-- Puts the next step of a chain in the place of the one whose lease has just been ended.
UPDATE tidemill_jobs SET queue = ?2, due = ?3, step = ?4, body = ?5 WHERE seq = ?1
