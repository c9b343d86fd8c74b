-- What distinguishes one database from another, whatever the route of the connection.
SELECT current_database() || ' ' || (SELECT oid FROM pg_database WHERE datname = current_database()) || ' '
    || extract(epoch FROM pg_postmaster_start_time()) AS identity
