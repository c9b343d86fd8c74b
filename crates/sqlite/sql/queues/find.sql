-- A queue's number and whether it is paused. It is read inside the transaction that acts on it, so
-- that nothing is claimed after a pause was acknowledged.
SELECT id, paused FROM tidemill_queues WHERE name = ?1 AND delivery = ?2
