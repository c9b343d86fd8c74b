-- Marks held jobs as started. Leases come sorted, so that two statements lock them in the same order.
--
-- $1 tokens
UPDATE leases SET started = true FROM unnest($1::bigint[]) AS held (seq)
WHERE leases.seq = ANY (ARRAY[held.seq])
RETURNING leases.seq
