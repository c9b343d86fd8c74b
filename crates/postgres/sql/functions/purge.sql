-- Deletes one batch of waiting jobs that are not newer than the purge itself, and returns where it
-- ended: the next batch starts there instead of passing dead rows. Skips rows that a claim has
-- locked: those jobs are running by the time the purge returns. Jobs internal to a run stay. Runs
-- that wait for a deleted job are notified, and locked by id after the rows of `ready`.
CREATE OR REPLACE FUNCTION purge_ready(target integer, newest bigint, batch bigint, after_due bigint, after_seq bigint,
    OUT deleted bigint, OUT due bigint, OUT seq bigint, OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    ids text[];
BEGIN
    WITH picked AS MATERIALIZED (
        SELECT ctid, due, seq FROM ready WHERE queue = target AND seq <= newest AND (due, seq) > (after_due, after_seq)
            AND NOT carries_a_run(id)
        ORDER BY due, seq LIMIT batch FOR UPDATE SKIP LOCKED
    ),
    taken AS (
        DELETE FROM ready WHERE ctid = ANY (ARRAY(SELECT ctid FROM picked)) RETURNING due, seq, id
    )
    SELECT count(*), (array_agg(due ORDER BY due DESC, seq DESC))[1], (array_agg(seq ORDER BY due DESC, seq DESC))[1],
        array_agg(id)
    INTO deleted, due, seq, ids FROM taken;
    woken := CASE WHEN ids IS NULL THEN '{}' ELSE remove_and_tell(ids) END;
END $$;

-- Deletes one batch of blocked jobs that are not newer than the purge itself. FOR UPDATE makes sure
-- that they are still blocked; those that were unblocked meanwhile are waiting jobs. `picked` is
-- how many there seemed to be.
CREATE OR REPLACE FUNCTION purge_blocked(target integer, newest bigint, batch bigint,
    OUT picked bigint, OUT deleted bigint, OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    ids text[];
BEGIN
    ids := ARRAY(SELECT id FROM jobs WHERE state = 1 AND queue = target AND seq <= newest ORDER BY seq LIMIT batch);
    picked := cardinality(ids);
    ids := ARRAY(SELECT id FROM jobs WHERE id = ANY (ids) AND state + 0 = 1 ORDER BY id FOR UPDATE);
    deleted := cardinality(ids);
    woken := remove(ids);
END $$;
