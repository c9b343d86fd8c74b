-- Deletes a range of leases of one claim, which were just checked to be current.
DELETE FROM tidemill_running WHERE seq BETWEEN ?1 AND ?2
