-- The newest runs of a status within a window. Served by one index, as the other lists are.
SELECT started, number FROM tidemill_runs
WHERE status = ?5 AND started >= ?1 AND (started, number) < (?2, ?3)
ORDER BY started DESC, number DESC LIMIT ?4
