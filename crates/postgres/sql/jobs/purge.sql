-- Deletes one batch of waiting jobs; functions/purge.sql says what it locks.
--
-- $1 queue   $2 newest number   $3 at most   $4 and $5 where the batch before ended
SELECT deleted, due, seq, woken FROM tidemill.purge_ready($1, $2, $3, $4, $5)
