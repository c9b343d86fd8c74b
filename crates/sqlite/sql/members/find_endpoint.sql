-- The endpoint and the offer of a worker.
SELECT endpoint, offer FROM tidemill_members WHERE id = ?1
