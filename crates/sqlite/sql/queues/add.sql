-- Makes a queue known.
INSERT INTO queues (name, delivery) VALUES (?1, ?2) RETURNING id
