-- The number of a queue, if it has one.
--
-- $1 name   $2 delivery
SELECT number FROM queues WHERE name = $1 AND delivery = $2
