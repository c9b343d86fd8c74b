-- A new job number: all jobs that become waiting later have greater ones.
SELECT nextval('job_seq')
