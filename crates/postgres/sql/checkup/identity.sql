-- What tells one database from another, whichever way a connection takes.
SELECT current_database() || ' ' || (SELECT oid FROM pg_database WHERE datname = current_database()) || ' '
    || extract(epoch FROM pg_postmaster_start_time()) AS identity
