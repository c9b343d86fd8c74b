-- What was delivered to a run is nobody's business any more.
DELETE FROM tidemill_run_seen WHERE run = ?1
