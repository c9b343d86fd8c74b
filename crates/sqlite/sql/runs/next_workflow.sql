-- The next type that has runs which have ended: one step down the index, however many runs there are.
SELECT workflow FROM tidemill_runs WHERE closed IS NOT NULL AND workflow > ?1 ORDER BY workflow LIMIT 1
