-- Inserts one envelope. A batch shares its transaction.
INSERT INTO tidemill_floor (envelope) VALUES (?1)
