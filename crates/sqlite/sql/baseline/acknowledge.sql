-- Deletes a claimed row. A batch shares its transaction.
DELETE FROM tidemill_floor WHERE seq = ?1 AND taken = 1
