-- Notifies all listeners. It is a transaction of its own: inside the transaction that enqueues,
-- NOTIFY would serialize all commits.
--
-- A wake-up need not survive a crash, so the commit does not wait for the disk.
--
-- $1 channel   $2 payloads
SELECT count(pg_notify($1, payload)), set_config('synchronous_commit', 'off', true) AS commits
FROM unnest($2::text[]) AS payload
