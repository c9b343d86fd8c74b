-- Pauses or resumes a queue. A repeated call changes nothing.
UPDATE tidemill_queues SET paused = ?2 WHERE id = ?1 AND paused <> ?2
