-- A heartbeat with the worker's entry. Its lifetime and its orders stay. Its grace time stays too,
-- unless it missed too many heartbeats: then sessions that nobody could renew meanwhile may still
-- be held.
UPDATE tidemill_members
SET kind = ?2, offer = ?3, endpoint = ?4, status = ?5, concurrent = ?6, most = ?7, fresh = ?8, detail = ?9, beat_at = ?10,
    stale_at = ?11, grace_until = iif(stale_at <= ?10, ?12, grace_until), full_until = iif(?6 > concurrent, 0, full_until)
WHERE id = ?1
