-- How many leases have run out.
SELECT count(*) FROM running WHERE until <= ?1
