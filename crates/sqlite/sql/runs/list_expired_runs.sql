-- A bounded number of expired runs.
SELECT number FROM tidemill_runs WHERE expires <= ?1 ORDER BY expires LIMIT ?2
