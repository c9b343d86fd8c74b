-- Pauses or resumes a queue; the second of two equal calls changes nothing.
UPDATE tidemill_queues SET paused = ?2 WHERE id = ?1 AND paused <> ?2
