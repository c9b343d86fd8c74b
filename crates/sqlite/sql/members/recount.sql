-- A session of a member may end before the member was thought to have room.
UPDATE tidemill_members SET full_until = 0 WHERE id = ?1 AND full_until > ?2
