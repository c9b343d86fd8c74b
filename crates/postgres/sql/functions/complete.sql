-- Ends a job from outside, inside the caller's transaction: for programs in any language. Returns
-- `yes`, the state in which it had ended already, or `not_found`. Workers and waiters, such as a
-- run, are notified when the transaction commits. Locks what complete_job and
-- complete_by_delivering lock.
CREATE OR REPLACE FUNCTION complete(job text, output json DEFAULT 'null') RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    result text := coalesce(output, 'null');
    body bytea := (SELECT envelope FROM jobs WHERE id = chain_of(complete.job) AND state < 2);
    keep_ms bigint := keep_of(body);
    asker record := asker_of(body);
    done record;
BEGIN
    IF carries_a_run(complete.job) THEN
        RAISE EXCEPTION USING ERRCODE = 'TM003', MESSAGE = 'a run goes on by job ' || complete.job
            || ': cancel or terminate the run';
    END IF;
    IF asker.run IS NOT NULL THEN
        done := complete_by_delivering(complete.job, asker.run, 1::smallint, convert_to('{"at":' || now_ms()
            || ',"event":{"activity_done":{"seq":' || asker.seq || ',"result":{"ok":' || result || '}}}}', 'UTF8'),
            NULL, asker.seq);
    ELSE
        done := complete_job(complete.job, CASE WHEN keep_ms IS NULL THEN NULL ELSE 3::smallint END,
            convert_to(result, 'UTF8'), NULL, now_ms(), keep_ms);
    END IF;
    PERFORM tell(done.woken);
    RETURN CASE done.outcome WHEN 'seized' THEN 'yes' WHEN '2' THEN 'dead' WHEN '3' THEN 'done'
        WHEN '4' THEN 'cancelled' ELSE 'not_found' END;
END $$;
