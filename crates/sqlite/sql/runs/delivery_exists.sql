-- Whether an event with this id was delivered before.
SELECT EXISTS (SELECT 1 FROM tidemill_run_seen WHERE run = ?1 AND id = ?2)
