-- One envelope; a batch shares its transaction.
INSERT INTO tidemill_floor (envelope) VALUES (?1)
