-- What a member says of itself. Its lifetime and an order to it stay as they are, and so does its grace, unless it has not
-- beaten for too long: leases that nobody could extend meanwhile may be held.
UPDATE tidemill_members
SET kind = ?2, offer = ?3, endpoint = ?4, status = ?5, concurrent = ?6, most = ?7, fresh = ?8, detail = ?9, beat_at = ?10,
    stale_at = ?11, grace_until = iif(stale_at <= ?10, ?12, grace_until), full_until = iif(?6 > concurrent, 0, full_until)
WHERE id = ?1
