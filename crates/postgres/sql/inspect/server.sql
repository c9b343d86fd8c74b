-- The version of the server and how durable its commits are.
SELECT current_setting('server_version') AS version, current_setting('fsync') AS fsync,
    current_setting('synchronous_commit') AS synchronous_commit,
    current_setting('synchronous_standby_names') AS standbys, current_setting('autovacuum') AS autovacuum,
    pg_is_in_recovery() AS standby
