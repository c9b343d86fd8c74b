-- Stores the record of a chain, with its dedup key. An older record of the same id has expired, or
-- the chain could not have been started. The job's row still exists.
INSERT OR REPLACE INTO tidemill_records (job, state, error, finished, expires, output, key, begun)
VALUES (?1, ?2, ?3, ?4, ?5, ?6,
    (SELECT key FROM tidemill_jobs WHERE seq = ?7), (SELECT begun FROM tidemill_jobs WHERE seq = ?7))
