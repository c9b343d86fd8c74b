-- The number that the next job to wait would have drawn: a border between now and later.
SELECT nextval('job_seq')
