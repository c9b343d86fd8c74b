-- Assigns a number to a queue. A concurrent second caller waits for the first and then finds the
-- number.
--
-- $1 name   $2 delivery
INSERT INTO queues (name, delivery) VALUES ($1, $2) ON CONFLICT DO NOTHING
