-- Functions that users may call from their own connections get the settings of the store's
-- connections: plans that do not depend on statistics, and names that mean the store's tables even
-- if the caller has temporary ones of the same name. A setting costs microseconds in every call. So
-- `settle_job`, which every atomic handler calls and which joins nothing, has the fewest, and
-- `release`, which it seldom calls, the rest. Locks nothing but the functions.
DO $$
DECLARE
    name regprocedure;
    place text := format('search_path = %I, pg_temp', current_schema());
    scans text[] := ARRAY['enable_seqscan = off', 'enable_bitmapscan = off'];
    joins text[] := ARRAY['enable_hashjoin = off', 'enable_mergejoin = off', 'plan_cache_mode = force_generic_plan',
        'jit = off'];
    setting text;
BEGIN
    FOR name IN
        SELECT oid FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND proname IN ('enqueue', 'complete',
            'enqueue_jobs', 'settle_job', 'continue_job', 'deliver_job', 'complete_job', 'complete_by_continuing',
            'complete_by_delivering', 'release')
    LOOP
        FOREACH setting IN ARRAY CASE name::text ~ 'settle_job\(' WHEN true THEN place || scans
            ELSE place || scans || joins END
        LOOP
            EXECUTE format('ALTER FUNCTION %s SET %s', name, setting);
        END LOOP;
    END LOOP;
END $$;
