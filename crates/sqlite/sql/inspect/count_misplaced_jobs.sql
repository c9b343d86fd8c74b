-- How many jobs are in no state or in two, among a bounded number of the oldest, which should have
-- moved on by now. A job that waits for no chain is not blocked.
SELECT count(*) FROM (SELECT seq, queue, due, died FROM tidemill_jobs ORDER BY seq LIMIT 10000) j
WHERE (j.died IS NOT NULL)
    + EXISTS (SELECT 1 FROM tidemill_running r WHERE r.seq = j.seq)
    + EXISTS (SELECT 1 FROM tidemill_blocked b WHERE b.seq = j.seq AND b.open > 0)
    + EXISTS (SELECT 1 FROM tidemill_waiting w WHERE w.queue = j.queue AND w.due = j.due AND w.seq = j.seq) <> 1
