-- A member goes; its sessions go by `sessions/remove_of.sql`.
DELETE FROM tidemill_members WHERE id = ?1
