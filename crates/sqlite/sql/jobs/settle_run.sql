-- Ends a run of leases of one claim, all of which have just been seen to be current.
DELETE FROM tidemill_running WHERE seq BETWEEN ?1 AND ?2
