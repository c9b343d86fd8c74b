-- Extends leases. Leases come sorted, so that two statements lock them in the same order.
--
-- $1 tokens   $2 lease in ms
UPDATE leases SET until = now_ms() + $2 FROM unnest($1::bigint[]) AS held (seq)
WHERE leases.seq = ANY (ARRAY[held.seq])
RETURNING leases.seq, leases.cancelling
