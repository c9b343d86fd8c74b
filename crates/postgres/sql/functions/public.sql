-- What may be called from connections that are not the store's own gets the settings of those that are: plans that do
-- not depend on statistics, and names that mean the store's tables even where the caller has temporary ones of the
-- same name. Locks nothing but the functions.
DO $$
DECLARE
    name regprocedure;
    setting text;
BEGIN
    FOR name IN
        SELECT oid FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND proname IN ('enqueue', 'complete',
            'enqueue_jobs', 'settle_job', 'continue_job', 'complete_job', 'complete_by_continuing')
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', name, current_schema());
        FOREACH setting IN ARRAY ARRAY['enable_seqscan = off', 'enable_bitmapscan = off', 'enable_hashjoin = off',
            'enable_mergejoin = off', 'plan_cache_mode = force_generic_plan', 'jit = off']
        LOOP
            EXECUTE format('ALTER FUNCTION %s SET %s', name, setting);
        END LOOP;
    END LOOP;
END $$;
