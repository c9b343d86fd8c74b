-- Deletes one batch of blocked jobs. functions/purge.sql documents the locks.
--
-- $1 queue   $2 newest number   $3 limit
SELECT picked, deleted, woken FROM tidemill.purge_blocked($1, $2, $3)
