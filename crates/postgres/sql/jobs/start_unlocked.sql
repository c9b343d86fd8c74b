-- Marks leased jobs as started, except those that other transactions have locked: a user's
-- transaction that completes one of them may stay open for long, and the other jobs must not wait
-- for it. Costs one more look-up than start.sql.
--
-- $1 tokens
WITH free AS (
    SELECT leases.seq FROM unnest($1::bigint[]) AS held (seq) JOIN leases ON leases.seq = ANY (ARRAY[held.seq])
    FOR NO KEY UPDATE OF leases SKIP LOCKED
)
UPDATE leases SET started = true FROM free WHERE leases.seq = ANY (ARRAY[free.seq])
RETURNING leases.seq
