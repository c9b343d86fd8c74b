-- How many jobs of a range are still leased by one claim.
SELECT count(*) FROM tidemill_running WHERE seq BETWEEN ?1 AND ?2 AND token = ?3
