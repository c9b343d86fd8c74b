-- Forgets raw rows.
--
-- $1 ids
DELETE FROM floor WHERE id = ANY($1::bigint[])
