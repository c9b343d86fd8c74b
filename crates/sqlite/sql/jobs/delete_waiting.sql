-- Deletes a job from `waiting`.
DELETE FROM tidemill_waiting WHERE queue = ?1 AND due = ?2 AND seq = ?3
