-- A part of a journal, up to the entry that reaches the byte limit. The length of an entry is known
-- without reading it, so entries beyond the limit are not read.
--
-- $1 run   $2 from which position on   $3 limit   $4 bytes
SELECT position, kind, entry FROM (
    SELECT position, kind, entry, sum(octet_length(entry)) OVER (ORDER BY position) - octet_length(entry) AS before
    FROM journal WHERE run = $1 AND position >= $2 ORDER BY position LIMIT $3
) AS line WHERE before < $4 ORDER BY position
