-- How many of a run of jobs are still held by one claim.
SELECT count(*) FROM tidemill_running WHERE seq BETWEEN ?1 AND ?2 AND token = ?3
