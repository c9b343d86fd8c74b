-- What an alarm has to know of its run.
SELECT number, status, cursor, length, keep, expires FROM tidemill_runs WHERE number = ?1
