-- One envelope; a batch shares its transaction.
INSERT INTO floor (envelope) VALUES (?1)
