-- Gives a queue its number. Whoever comes second waits for the first and then finds the number there.
--
-- $1 name   $2 delivery
INSERT INTO queues (name, delivery) VALUES ($1, $2) ON CONFLICT DO NOTHING
