-- A bounded number of runs whose time is over.
SELECT number FROM tidemill_runs WHERE expires <= ?1 ORDER BY expires LIMIT ?2
