-- The newest job: a purge goes up to here, so that it ends however many are added meanwhile.
SELECT coalesce(max(seq), 0) FROM tidemill_jobs
