-- Deletes a chain with everything in it, unless a job waits for it. `outcome` is `deleted`,
-- `awaited` (by `waiter`), `moved` if the job changed its state meanwhile and the caller tries
-- again, or null if there is no such chain; `lost` is the job whose lease was deleted.
--
-- Locks what it may delete before it decides, in the order of every other statement, and FOR UPDATE
-- on the chain's row: no job can begin to wait for it any more.
CREATE OR REPLACE FUNCTION delete_chain(chain text, OUT outcome text, OUT waiter text, OUT lost text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    job record;
BEGIN
    SELECT jobs.state, jobs.step, jobs.queue, jobs.due, jobs.seq INTO job
    FROM jobs WHERE id = chain AND (state < 3 OR due > now_ms());
    IF NOT FOUND THEN
        RETURN;
    END IF;
    outcome := 'moved';
    IF job.state = 0 THEN
        PERFORM 1 FROM ready WHERE queue = job.queue AND due = job.due AND seq = job.seq FOR UPDATE;
        IF NOT FOUND THEN
            PERFORM 1 FROM leases WHERE seq = job.seq FOR UPDATE;
            IF NOT FOUND THEN
                RETURN;
            END IF;
        END IF;
    END IF;
    PERFORM 1 FROM jobs WHERE id = chain AND state = job.state AND seq = job.seq FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT at_step(jobs.id, jobs.step) INTO waiter
    FROM blocks JOIN jobs ON jobs.id = ANY (ARRAY[blocks.job])
    WHERE blocks.chain = delete_chain.chain AND told IS NULL AND since <= job.seq LIMIT 1;
    IF FOUND THEN
        outcome := 'awaited';
        RETURN;
    END IF;
    DELETE FROM ready WHERE queue = job.queue AND due = job.due AND seq = job.seq AND job.state = 0;
    DELETE FROM leases WHERE seq = job.seq AND job.state = 0;
    IF FOUND THEN
        lost := at_step(chain, job.step);
    END IF;
    PERFORM remove(ARRAY[chain]);
    outcome := 'deleted';
END $$;
