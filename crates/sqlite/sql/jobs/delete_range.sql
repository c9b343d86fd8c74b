-- Deletes a range of jobs whose leases were just deleted.
DELETE FROM tidemill_jobs WHERE seq BETWEEN ?1 AND ?2
