-- Notifies the jobs that wait for chains of the ends of these, and unblocks those that wait for
-- nothing else. The caller has locked the rows of the chains FOR UPDATE, or has deleted them, so no
-- job can begin to wait for them any more.
--
-- Waiting jobs are locked by id before anything of theirs is changed: two chains of one job that
-- close at the same moment are serialized, and the second sees the notice of the first.
CREATE OR REPLACE FUNCTION release(closed text[], seqs bigint[], words bytea[]) RETURNS text[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    waiters text[];
BEGIN
    IF NOT sees_the_present() THEN
        INSERT INTO owed (chain, seq, told) SELECT * FROM unnest(closed, seqs, words) ON CONFLICT DO NOTHING;
        RETURN ARRAY['owed'];
    END IF;
    waiters := ARRAY(SELECT job FROM blocks WHERE chain = ANY (closed) AND told IS NULL);
    PERFORM 1 FROM jobs WHERE id = ANY (waiters) ORDER BY id FOR NO KEY UPDATE;
    UPDATE blocks SET told = ended.word
    FROM unnest(closed, seqs, words) AS ended (chain, seq, word), LATERAL (
        SELECT job, position FROM blocks WHERE chain = ended.chain AND told IS NULL AND since <= ended.seq OFFSET 0
    ) AS open
    WHERE blocks.job = ANY (ARRAY[open.job]) AND blocks.position = ANY (ARRAY[open.position]);
    RETURN unblock(waiters);
END $$;

-- Whether a statement sees what was committed before it began. Above READ COMMITTED it sees an
-- earlier snapshot.
CREATE OR REPLACE FUNCTION sees_the_present() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT current_setting('transaction_isolation') IN ('read committed', 'read uncommitted')
$$;

-- Processes chains in `owed`, a bounded number. Skips rows that another transaction has locked.
CREATE OR REPLACE FUNCTION release_owed(batch bigint) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    closed text[];
    seqs bigint[];
    words bytea[];
BEGIN
    WITH paid AS (
        DELETE FROM owed WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM owed WHERE chain > '' ORDER BY chain LIMIT batch FOR UPDATE SKIP LOCKED
        ))
        RETURNING chain, seq, told
    )
    SELECT array_agg(chain), array_agg(seq), array_agg(told) INTO closed, seqs, words FROM paid;
    RETURN CASE WHEN closed IS NULL THEN '{}' ELSE release(closed, seqs, words) END;
END $$;
