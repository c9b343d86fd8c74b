-- Signs of trouble to come: snapshots that keep dead rows alive, dead rows, leases nobody rescues.
--
-- $1 how late a lease is when its rescuers must be dead, in ms   $2 count at most
SELECT
    (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::bigint FROM pg_stat_activity
        WHERE xact_start IS NOT NULL AND datname = current_database() AND backend_xmin IS NOT NULL) AS oldest_s,
    (SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables
        WHERE schemaname = current_schema() AND relname IN ('ready', 'leases')) AS dead_rows,
    (SELECT count(*) FROM queues, LATERAL (
        SELECT FROM leases WHERE queue = number AND until < now_ms() - $1 LIMIT $2) AS late) AS late
