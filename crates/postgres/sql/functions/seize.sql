-- Takes a job out of its state and gives it to the caller, as a claim would, with a lease that no
-- other transaction has seen. `outcome` is `seized`, the code of the state in which the job had
-- ended (a step that its chain has passed counts as done), or null if there is no such job; `lost`
-- says whether a worker's lease was deleted.
--
-- Locks rows of `ready` and `leases` before rows of `jobs`, as every statement does. A job that
-- changes its state meanwhile is looked up again.
CREATE OR REPLACE FUNCTION seize(job text, OUT outcome text, OUT token bigint, OUT lost boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    row_id text := chain_of(job);
    there record;
    stopping boolean := false;
BEGIN
    FOR look IN 1..12 LOOP
        SELECT state, step, queue, due, seq INTO there FROM jobs WHERE id = row_id AND (state < 3 OR due > now_ms());
        IF NOT FOUND OR there.step < step_of(job) THEN
            RETURN;
        END IF;
        IF there.step > step_of(job) OR there.state > 1 THEN
            outcome := CASE WHEN there.step > step_of(job) THEN 3 ELSE there.state END;
            RETURN;
        END IF;
        IF there.state = 1 THEN
            UPDATE jobs SET state = 0 WHERE id = row_id AND state + 0 = 1 AND seq = there.seq;
            IF FOUND THEN
                DELETE FROM blocks WHERE blocks.job = row_id;
                outcome := 'seized';
            END IF;
        ELSE
            DELETE FROM ready WHERE queue = there.queue AND due = there.due AND seq = there.seq;
            IF NOT FOUND THEN
                DELETE FROM leases WHERE seq = there.seq RETURNING cancelling INTO stopping;
                lost := FOUND;
            END IF;
            IF FOUND THEN
                outcome := 'seized';
            END IF;
        END IF;
        IF outcome IS NOT NULL THEN
            INSERT INTO leases (seq, until, queue, started, cancelling, id, worker)
            VALUES (nextval('job_seq'), now_ms(), there.queue, true, coalesce(stopping, false), row_id, '')
            RETURNING seq INTO token;
            RETURN;
        END IF;
    END LOOP;
    RAISE EXCEPTION USING ERRCODE = 'serialization_failure', MESSAGE = 'job ' || job || ' moves too fast to be completed';
END $$;
