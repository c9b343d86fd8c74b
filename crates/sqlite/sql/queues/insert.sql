-- Inserts a queue.
INSERT INTO tidemill_queues (name, delivery) VALUES (?1, ?2) RETURNING id
