-- Signs of trouble: transactions and slots that keep dead rows alive, dead rows, and expired leases
-- that nobody rescues. A role that may not read all statistics sees other roles' transactions
-- without their times.
--
-- $1 how long ago a lease must have expired to count, in ms   $2 count limit
SELECT
    (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::bigint FROM pg_stat_activity
        WHERE xact_start IS NOT NULL AND datname = current_database() AND backend_xmin IS NOT NULL) AS oldest_s,
    pg_has_role('pg_read_all_stats', 'USAGE') AS sees_all,
    (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - prepared)), 0)::bigint FROM pg_prepared_xacts
        WHERE database = current_database()) AS prepared_s,
    slot.name AS slot, coalesce(slot.behind, 0)::bigint AS slot_behind,
    worst.dead_rows, worst.name AS worst, worst.vacuumed_s,
    (SELECT count(*) FROM (SELECT FROM leases WHERE until < now_ms() - $1 LIMIT $2) AS late) AS late
FROM (SELECT 1) AS always LEFT JOIN LATERAL (
    SELECT slot_name::text AS name, greatest(age(xmin), age(catalog_xmin)) AS behind FROM pg_replication_slots
    WHERE xmin IS NOT NULL OR catalog_xmin IS NOT NULL ORDER BY 2 DESC NULLS LAST LIMIT 1
) AS slot ON true LEFT JOIN LATERAL (
    SELECT relname::text AS name, n_dead_tup AS dead_rows,
        extract(epoch FROM clock_timestamp() - greatest(last_autovacuum, last_vacuum))::bigint AS vacuumed_s
    FROM pg_stat_user_tables WHERE schemaname = current_schema() ORDER BY n_dead_tup DESC, relname LIMIT 1
) AS worst ON true
