-- A page of a queue's waiting jobs between two times, in the order in which they are claimed.
SELECT w.due, w.seq, j.job, j.body
FROM tidemill_waiting w CROSS JOIN tidemill_jobs j ON j.seq = w.seq
WHERE w.queue = :queue AND (w.due, w.seq) > (:after_due, :after_seq) AND w.due <= :until
ORDER BY w.due, w.seq LIMIT :limit
