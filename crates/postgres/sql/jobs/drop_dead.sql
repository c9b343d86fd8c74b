-- Deletes dead letters. functions/drop_letters.sql documents the locks.
--
-- $1 queue   $2 chains
SELECT dropped, woken FROM tidemill.drop_letters($1, $2)
