-- The columns that an alarm needs of its run.
SELECT number, status, cursor, length, keep, expires, last_commit FROM tidemill_runs WHERE number = ?1
