-- The newest runs with an attribute within a window.
SELECT started, run FROM tidemill_run_attributes
WHERE name = ?5 AND value = ?6 AND started >= ?1 AND (started, run) < (?2, ?3)
ORDER BY started DESC, run DESC LIMIT ?4
