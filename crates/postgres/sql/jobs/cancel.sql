-- Removes a waiting job, or marks the lease of a running one. A claim that has the job's row of `ready` at
-- this moment makes the delete wait and then find nothing, and its lease is too young for this statement to
-- see: then nothing is removed, nothing is told, and the caller asks again.
--
-- $1 id
WITH job AS (
    SELECT id, queue, state, seq, due FROM jobs
    WHERE id = $1 AND (state < 3 OR due > now_ms())
),
removed AS (
    DELETE FROM ready
    WHERE queue = (SELECT queue FROM job)
        AND due = (SELECT due FROM job) AND seq = (SELECT seq FROM job WHERE state = 0)
    RETURNING id
),
gone AS (DELETE FROM jobs WHERE id = (SELECT id FROM removed)),
told AS (
    UPDATE leases SET cancelling = true WHERE seq = (SELECT seq FROM job WHERE state = 0)
    RETURNING id
)
SELECT state, EXISTS (SELECT FROM removed) AS removed, EXISTS (SELECT FROM told) AS told FROM job
