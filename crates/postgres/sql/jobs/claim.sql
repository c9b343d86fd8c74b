-- Takes the oldest jobs that are due; if they are fewer than wanted, says when the next one will be, and whether the queue
-- is open: what waits in a paused one was not looked at. Each row says how long it took to find them, in microseconds.
--
-- Locks the rows of `ready` it is about to delete and skips those another claim has locked, so claims never
-- wait for one another. Rows are found again by ctid: they are locked, so they cannot have moved. Envelopes are found in
-- one scan for all: among a million rows each scan of its own goes down one level more. A job's number and time are
-- the same in both tables, which only change together.
--
-- An at-least-once claim need not be on disk before it is acted upon: if the server crashes and forgets it, the job is
-- ready again, as it would be after the lease, and the settlement that comes first still ends it. So its commit does not
-- wait for the disk. One that takes the job off for good does.
--
-- $1 queue   $2 worker   $3 lease in ms   $4 at most   $5 how many of them start at once
-- $6, $7 nothing that is due before this time, or then and has a smaller number, is looked at
WITH line AS MATERIALIZED (
    SELECT CASE WHEN delivery = 1 THEN set_config('synchronous_commit', 'off', true) END
    FROM queues WHERE number = $1 AND NOT paused
),
picked AS MATERIALIZED (
    SELECT ctid, due, seq FROM ready
    WHERE queue = $1 AND (due, seq) >= ($6, $7) AND due <= now_ms() AND EXISTS (SELECT FROM line)
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
        -- Whatever comes before the first job that does not start; everything, if there is none.
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
), EXISTS (SELECT FROM line), (SELECT took FROM search) WHERE (SELECT count(*) FROM picked) < $4
