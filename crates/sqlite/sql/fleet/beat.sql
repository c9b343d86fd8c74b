-- A heartbeat with the worker's entry. Its lifetime and its orders stay. Its grace time stays too,
-- unless it missed too many heartbeats: then sessions that nobody could renew meanwhile may still
-- be held.
UPDATE tidemill_members
SET kind = :kind, offer = :offer, endpoint = :endpoint, status = :status, concurrent = :concurrent, most = :most, fresh = :fresh, detail = :detail, beat_at = :now,
    stale_at = :stale_at, grace_until = iif(stale_at <= :now, :grace_until, grace_until), full_until = iif(:concurrent > concurrent, 0, full_until)
WHERE id = :id
