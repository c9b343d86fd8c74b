-- Extends leases. Skips rows that other transactions have locked, such as a user's transaction that
-- completes one of the jobs: it may stay open for long, and the other leases must not expire
-- meanwhile. A skipped lease counts as held, as it is visible; if it is gone, the next heartbeat
-- finds out. Leases are sorted, so that two statements lock them in the same order.
--
-- $1 tokens   $2 lease in ms
WITH free AS (
    SELECT leases.seq FROM unnest($1::bigint[]) AS held (seq) JOIN leases ON leases.seq = ANY (ARRAY[held.seq])
    FOR NO KEY UPDATE OF leases SKIP LOCKED
),
extended AS (
    UPDATE leases SET until = now_ms() + $2 FROM free WHERE leases.seq = ANY (ARRAY[free.seq])
    RETURNING leases.seq, leases.cancelling
)
SELECT seq, cancelling FROM extended
UNION ALL
SELECT leases.seq, leases.cancelling
FROM unnest($1::bigint[]) AS held (seq) JOIN leases ON leases.seq = ANY (ARRAY[held.seq])
WHERE NOT leases.seq = ANY (ARRAY(SELECT seq FROM extended))
