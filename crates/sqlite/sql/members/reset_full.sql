-- Resets the full mark of a worker if one of its sessions now ends earlier than the mark.
UPDATE tidemill_members SET full_until = 0 WHERE id = ?1 AND full_until > ?2
