-- Deletes one that was taken; a batch shares its transaction.
DELETE FROM tidemill_floor WHERE seq = ?1 AND taken = 1
