-- Puts the jobs of one enqueue into their queue's line. Their numbers follow one another: they were given out
-- in this transaction.
INSERT INTO tidemill_waiting (queue, due, seq) SELECT queue, due, seq FROM tidemill_jobs WHERE seq BETWEEN ?1 AND ?2
