-- Ends a job from outside, inside whatever transaction the caller is in: for programs in any language. Returns `yes`,
-- the state in which it had ended already, or `not_found`. Workers and whoever waits hear of it when the transaction
-- commits. Locks what complete_job locks.
CREATE OR REPLACE FUNCTION complete(job text, output json DEFAULT 'null') RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    keep_ms bigint := (SELECT keep_of(envelope) FROM jobs WHERE id = chain_of(complete.job) AND state < 2);
    done record;
BEGIN
    done := complete_job(complete.job, CASE WHEN keep_ms IS NULL THEN NULL ELSE 3::smallint END,
        convert_to(coalesce(output, 'null')::text, 'UTF8'), NULL, now_ms(), keep_ms);
    PERFORM tell(done.woken);
    RETURN CASE done.outcome WHEN 'seized' THEN 'yes' WHEN '2' THEN 'dead' WHEN '3' THEN 'done'
        WHEN '4' THEN 'cancelled' ELSE 'not_found' END;
END $$;
