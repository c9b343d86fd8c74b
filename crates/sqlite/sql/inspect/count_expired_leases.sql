-- How many leases have expired.
SELECT count(*) FROM tidemill_running WHERE until <= ?1
