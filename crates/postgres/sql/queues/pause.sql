-- Pauses or resumes a queue.
--
-- $1 queue   $2 paused
UPDATE queues SET paused = $2 WHERE number = $1
