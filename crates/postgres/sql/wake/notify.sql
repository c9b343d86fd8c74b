-- Tells every listener. In a transaction of its own: inside the one that makes the work, it would serialise
-- all commits.
--
-- $1 channel   $2 payloads
SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload
