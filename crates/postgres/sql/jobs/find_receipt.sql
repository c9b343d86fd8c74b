-- The result of an enqueue that took place. Locks nothing.
--
-- $1, $2 the receipt
SELECT created, made, others FROM receipts WHERE at = $1 AND call = $2
