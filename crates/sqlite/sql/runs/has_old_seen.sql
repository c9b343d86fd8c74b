-- Whether a run remembers anything that was delivered before a time. Asked before what else is to be forgotten is looked for.
SELECT EXISTS (SELECT 1 FROM tidemill_run_seen WHERE run = ?1 AND at < ?2)
