-- Whether a run has delivery ids older than a time. Checked before the more expensive delete.
SELECT EXISTS (SELECT 1 FROM tidemill_run_seen WHERE run = ?1 AND at < ?2)
