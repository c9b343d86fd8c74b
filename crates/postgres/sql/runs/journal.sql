-- A part of a journal.
--
-- $1 run   $2 from which position on   $3 at most
SELECT position, kind, entry FROM journal WHERE run = $1 AND position >= $2 ORDER BY position LIMIT $3
