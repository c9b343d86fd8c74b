-- A bounded number of a queue's waiting jobs after a position, with the envelopes of those that
-- belong to runs. The write lock is held, so they stay until the caller has deleted them.
SELECT w.due, w.seq, j.id, CASE WHEN instr(j.id, '!') > 0 THEN j.body ELSE x'' END
FROM tidemill_waiting w CROSS JOIN tidemill_jobs j ON j.seq = w.seq
WHERE w.queue = :queue AND w.seq <= :last AND (w.due, w.seq) > (:after_due, :after_seq) ORDER BY w.due, w.seq LIMIT :limit
