-- How many leases have run out.
SELECT count(*) FROM tidemill_running WHERE until <= ?1
