-- The next workflow type that has closed runs: one step in the index, however many runs there are.
SELECT workflow FROM tidemill_runs WHERE closed IS NOT NULL AND workflow > ?1 ORDER BY workflow LIMIT 1
