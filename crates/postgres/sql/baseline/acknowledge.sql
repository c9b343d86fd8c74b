-- Deletes claimed rows.
--
-- $1 ids
DELETE FROM tidemill.floor WHERE id = ANY($1::bigint[])
