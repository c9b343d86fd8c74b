-- Removes a run of jobs whose leases have just been ended.
DELETE FROM tidemill_jobs WHERE seq BETWEEN ?1 AND ?2
