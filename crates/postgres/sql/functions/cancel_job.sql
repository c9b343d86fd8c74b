-- Removes a waiting or blocked job, or marks the lease of a running one. `outcome` is `removed`,
-- `told`, the code of the state in which it had ended, or null if there is no such job; `moved` if
-- it changed its state meanwhile, and the caller tries again. With `telling`, a run that waits for
-- it is notified.
--
-- The job's row is locked last, after its row of `ready`: a claim or a settlement locks in the same
-- order. If a claim holds the row of `ready`, the delete waits and then finds nothing, and the next
-- statement sees the lease.
CREATE OR REPLACE FUNCTION cancel_job(chain text, telling boolean, OUT outcome text, OUT step integer, OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    job record;
BEGIN
    woken := '{}';
    SELECT jobs.state, jobs.step, jobs.queue, jobs.due, jobs.seq INTO job
    FROM jobs WHERE id = chain AND (state < 3 OR due > now_ms());
    step := job.step;
    CASE
        WHEN NOT FOUND THEN
            RETURN;
        WHEN job.state > 1 THEN
            outcome := job.state;
            RETURN;
        WHEN job.state = 1 THEN
            PERFORM 1 FROM jobs WHERE id = chain AND state + 0 = 1 FOR UPDATE;
        ELSE
            DELETE FROM ready WHERE queue = job.queue AND due = job.due AND seq = job.seq;
    END CASE;
    IF FOUND THEN
        woken := CASE WHEN telling THEN remove_and_tell(ARRAY[chain]) ELSE remove(ARRAY[chain]) END;
        outcome := 'removed';
        RETURN;
    END IF;
    UPDATE leases SET cancelling = true WHERE seq = job.seq;
    outcome := CASE WHEN FOUND THEN 'told' ELSE 'moved' END;
END $$;
