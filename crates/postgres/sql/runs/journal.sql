-- A part of a journal, up to the entry by which it comes to so many bytes. How long an entry is is known without reading it,
-- so those beyond are not read.
--
-- $1 run   $2 from which position on   $3 at most   $4 bytes
SELECT position, kind, entry FROM (
    SELECT position, kind, entry, sum(octet_length(entry)) OVER (ORDER BY position) - octet_length(entry) AS before
    FROM journal WHERE run = $1 AND position >= $2 ORDER BY position LIMIT $3
) AS line WHERE before < $4 ORDER BY position
