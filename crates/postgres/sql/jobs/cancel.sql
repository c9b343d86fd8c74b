-- Removes a waiting job, or marks the lease of a running one. A claim that has the job's row of `ready` at
-- this moment makes the delete wait and then find nothing, and its lease is too young for this statement to
-- see: then nothing is removed, nothing is told, and the caller asks again.
--
-- $1 id
WITH job AS (
    SELECT id, queue, delivery, state, seq, due FROM jobs
    WHERE id = $1 AND (state < 3 OR due > now_ms())
),
removed AS (
    DELETE FROM ready USING job
    WHERE ready.queue = job.queue AND ready.delivery = job.delivery AND ready.due = job.due
        AND ready.seq = job.seq AND job.state = 0
    RETURNING ready.id
),
gone AS (DELETE FROM jobs USING removed WHERE jobs.id = removed.id),
told AS (
    UPDATE leases SET cancelling = true FROM job WHERE leases.seq = job.seq AND job.state = 0
    RETURNING leases.id
)
SELECT state, EXISTS (SELECT FROM removed) AS removed, EXISTS (SELECT FROM told) AS told FROM job
