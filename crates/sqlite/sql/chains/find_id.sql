-- The id of the chain with this number.
SELECT id, seq FROM tidemill_jobs WHERE seq = ?1
