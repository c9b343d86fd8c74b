-- Marks a worker as full until the first of its sessions ends.
UPDATE tidemill_members
SET full_until = (SELECT min(until) FROM tidemill_sessions WHERE member = ?1 AND until > ?2)
WHERE id = ?1
