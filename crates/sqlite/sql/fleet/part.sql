-- Deletes a worker. `sessions/delete_by_worker.sql` deletes its sessions.
DELETE FROM tidemill_members WHERE id = ?1
