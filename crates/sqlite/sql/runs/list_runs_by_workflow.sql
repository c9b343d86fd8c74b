-- The newest runs of a type and a status within a window.
SELECT started, number FROM tidemill_runs
WHERE workflow = ?6 AND status = ?5 AND started >= ?1 AND (started, number) < (?2, ?3)
ORDER BY started DESC, number DESC LIMIT ?4
