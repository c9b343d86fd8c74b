-- A page of a queue's waiting jobs between two times, in the order in which they are claimed.
SELECT w.due, w.seq, j.job, j.body
FROM tidemill_waiting w CROSS JOIN tidemill_jobs j ON j.seq = w.seq
WHERE w.queue = ?1 AND (w.due, w.seq) > (?2, ?3) AND w.due <= ?4
ORDER BY w.due, w.seq LIMIT ?5
