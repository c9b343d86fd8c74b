-- Marks leased jobs as started. Leases are sorted, so that two statements lock them in the same
-- order. Gives up soon on locks of other transactions: the caller then starts the unlocked jobs,
-- and the locked ones need not run.
--
-- $1 tokens
UPDATE leases SET started = true FROM unnest($1::bigint[]) AS held (seq)
WHERE leases.seq = ANY (ARRAY[held.seq]) AND (SELECT set_config('lock_timeout', '200ms', true)) <> ''
RETURNING leases.seq
