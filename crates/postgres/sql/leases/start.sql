-- Marks held jobs as started. Leases come sorted, so that two statements lock them in the same order.
-- Gives up soon on what others have locked: the caller then starts what is free, and the jobs that are not need not run.
--
-- $1 tokens
UPDATE leases SET started = true FROM unnest($1::bigint[]) AS held (seq)
WHERE leases.seq = ANY (ARRAY[held.seq]) AND (SELECT set_config('lock_timeout', '200ms', true)) <> ''
RETURNING leases.seq
