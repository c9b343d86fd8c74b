-- Deletes the delivery ids older than a time, except the latest ?3.
DELETE FROM tidemill_run_seen
WHERE run = ?1 AND at < ?2 AND (at, id) <= (
    SELECT at, id FROM tidemill_run_seen WHERE run = ?1 ORDER BY at DESC, id DESC LIMIT 1 OFFSET ?3)
