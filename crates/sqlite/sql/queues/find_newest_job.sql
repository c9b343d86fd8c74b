-- The newest job. A purge stops here, so that it ends however many jobs are added meanwhile.
SELECT coalesce(max(seq), 0) FROM tidemill_jobs
