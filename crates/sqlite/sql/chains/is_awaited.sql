-- Whether a job waits for one of these chains. A range, because jobs are finished in ranges.
SELECT EXISTS (SELECT 1 FROM tidemill_blocks WHERE blocker BETWEEN ?1 AND ?2)
