-- Inserts the jobs of one enqueue into `waiting`. Their numbers are consecutive, because this
-- transaction assigned them.
INSERT INTO tidemill_waiting (queue, due, seq) SELECT queue, due, seq FROM tidemill_jobs WHERE seq BETWEEN ?1 AND ?2
