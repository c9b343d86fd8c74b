-- Tells every listener. In a transaction of its own: inside the one that makes the work, it would serialise
-- all commits.
--
-- A hint need not survive a crash, so its commit does not wait for the disk.
--
-- $1 channel   $2 payloads
SELECT count(pg_notify($1, payload)), set_config('synchronous_commit', 'off', true) AS commits
FROM unnest($2::text[]) AS payload
