-- Keeps how a job ended. An older record of the same id has expired, or the job could not have been added.
INSERT OR REPLACE INTO tidemill_records (job, state, error, finished, expires, output) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
