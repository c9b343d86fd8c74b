-- Claims the oldest due jobs. If they are fewer than requested, returns when the next one is due,
-- and whether the queue is open: the jobs of a paused queue are not read. Each row contains how
-- long the search took, in microseconds.
--
-- Locks the rows of `ready` that it is about to delete, and skips those that another claim has
-- locked, so claims never wait for one another. Rows are found again by ctid: they are locked, so
-- they cannot have moved. Envelopes are found in one scan for all: among a million rows each
-- separate scan would descend one more level. A job's number and time are the same in both tables,
-- which only change together.
--
-- An at-least-once claim need not be durable before it is acted upon. If the server crashes and
-- loses it, the job is ready again, as it would be after the lease, and the first settlement still
-- ends it. So its commit does not wait for the disk. An at-most-once claim must be durable.
--
-- $1 queue   $2 worker   $3 lease in ms   $4 limit   $5 how many of them start at once
-- $6, $7 the position from which to search: due time and number
WITH open_queue AS MATERIALIZED (
    SELECT CASE WHEN delivery = 1 THEN set_config('synchronous_commit', 'off', true) END
    FROM queues WHERE number = $1 AND NOT paused
),
picked AS MATERIALIZED (
    SELECT ctid, due, seq FROM ready
    WHERE queue = $1 AND (due, seq) >= ($6, $7) AND due <= now_ms() AND EXISTS (SELECT FROM open_queue)
    ORDER BY due, seq
    LIMIT $4
    FOR UPDATE SKIP LOCKED
),
search AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000000)::bigint AS took
    FROM (SELECT count(*) FROM picked) AS found
),
taken AS (
    DELETE FROM ready WHERE ctid = ANY (ARRAY(SELECT ctid FROM picked)) RETURNING due, seq, id
),
leased AS (
    INSERT INTO leases (seq, until, queue, started, id, worker)
    SELECT seq, clock.now + $3, $1,
        -- All jobs before the first one that does not start; all jobs, if there is none.
        coalesce((due, seq) < (SELECT due, seq FROM picked OFFSET $5 LIMIT 1), true),
        id, $2
    FROM taken, (SELECT now_ms() AS now OFFSET 0) AS clock
)
SELECT jobs.due, jobs.seq, jobs.id, jobs.step, jobs.envelope, NULL::bigint AS next_in, true AS is_open,
    (SELECT took FROM search) AS took
FROM jobs WHERE id = ANY (ARRAY(SELECT id FROM taken))
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, (
    SELECT due - now_ms() FROM ready
    WHERE queue = $1 AND due > now_ms()
    ORDER BY due, seq LIMIT 1
), EXISTS (SELECT FROM open_queue), (SELECT took FROM search) WHERE (SELECT count(*) FROM picked) < $4
