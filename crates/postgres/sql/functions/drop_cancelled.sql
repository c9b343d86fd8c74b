-- Ends claims of jobs that are to be cancelled, and removes the jobs, where they would otherwise be
-- put back. Runs that wait for them are notified. Leases are sorted, as in record_jobs, and runs
-- are locked after them.
CREATE OR REPLACE FUNCTION drop_cancelled(tokens bigint[], ids text[], expired boolean,
    OUT ended bigint[], OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    cancelled text[];
BEGIN
    -- After a timeout the caller ends claims one by one, so that only the locked one waits.
    PERFORM set_config('lock_timeout', '1s', true);
    WITH freed AS (
        DELETE FROM leases USING unnest(tokens, ids) AS held (seq, id)
        WHERE leases.seq = ANY (ARRAY[held.seq]) AND leases.id = held.id AND leases.cancelling
            AND (NOT expired OR leases.until <= now_ms())
        RETURNING leases.seq, leases.id
    )
    SELECT array_agg(seq), array_agg(id) INTO ended, cancelled FROM freed;
    woken := '{}';
    IF cancelled IS NOT NULL THEN
        woken := remove_and_tell(cancelled) || ARRAY(SELECT 'finished ' || id FROM unnest(cancelled) AS id);
    END IF;
END $$;
