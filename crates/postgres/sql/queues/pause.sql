-- Pauses or resumes a queue, whether it has had jobs or not.
--
-- $1 queue   $2 delivery   $3 paused
INSERT INTO queues (name, delivery, paused) VALUES ($1, $2, $3)
ON CONFLICT (name, delivery) DO UPDATE SET paused = excluded.paused
