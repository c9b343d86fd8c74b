-- Deletes a lease if it is the current one and is still expired, so not extended since the rescuer
-- read it.
DELETE FROM tidemill_running WHERE seq = ?1 AND token = ?2 AND until <= ?3
