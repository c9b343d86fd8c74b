-- Deletes one batch of waiting jobs. functions/purge.sql documents the locks.
--
-- $1 queue   $2 newest number   $3 limit   $4 and $5 the end of the previous batch
SELECT deleted, due, seq, woken FROM tidemill.purge_ready($1, $2, $3, $4, $5)
