-- The number of a run.
SELECT number FROM tidemill_runs WHERE id = ?1
