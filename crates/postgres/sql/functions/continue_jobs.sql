-- Ends claims and replaces each job by the next step of its chain, ready, scheduled or blocked. A
-- chain that is to be cancelled is removed instead. Leases are sorted, as in record_jobs.
--
-- The chains that are waited for are locked FOR KEY SHARE before await_chains reads them. The chain
-- itself does not close, so jobs that begin to wait for it need not be kept out.
CREATE OR REPLACE FUNCTION continue_jobs(tokens bigint[], ids text[], expired boolean, steps step_row[],
    OUT ended bigint[], OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    going integer[];
    cancelled text[];
    chains text[] := ARRAY(SELECT unnest(step.after_chains) FROM unnest(steps) AS step);
BEGIN
    -- After a timeout the caller ends claims one by one, so that only the locked one waits.
    PERFORM set_config('lock_timeout', '1s', true);
    woken := '{}';
    WITH freed AS (
        DELETE FROM leases USING unnest(tokens, ids) WITH ORDINALITY AS held (seq, id, place)
        WHERE leases.seq = ANY (ARRAY[held.seq]) AND leases.id = held.id
            AND (NOT expired OR leases.until <= now_ms())
        RETURNING held.*, leases.cancelling
    )
    SELECT array_agg(seq), array_agg(place::integer) FILTER (WHERE NOT cancelling),
        array_agg(id) FILTER (WHERE cancelling) INTO ended, going, cancelled FROM freed;
    IF going IS NOT NULL THEN
        PERFORM 1 FROM jobs WHERE id = ANY (chains) ORDER BY id FOR KEY SHARE;
        WITH next AS MATERIALIZED (
            SELECT ids[place] AS id, step.* FROM unnest(steps)
                WITH ORDINALITY AS step (queue, delay, earliest, envelope, after_chains, place)
            WHERE place = ANY (going)
        ),
        moved AS (
            UPDATE jobs
            SET state = CASE WHEN cardinality(next.after_chains) > 0 THEN 1 ELSE 0 END, step = step + 1,
                queue = next.queue, seq = nextval('job_seq'), due = greatest(now_ms() + next.delay, next.earliest),
                envelope = next.envelope
            FROM next WHERE jobs.id = ANY (ARRAY[next.id])
            RETURNING jobs.id, jobs.state, jobs.queue, jobs.due, jobs.seq
        ),
        put AS (
            INSERT INTO ready (queue, due, seq, id) SELECT queue, due, seq, id FROM moved WHERE state = 0
        )
        SELECT wakes(array_agg(queue), array_agg(due)) INTO woken FROM moved WHERE state = 0;
        IF cardinality(chains) > 0 THEN
            woken := woken || coalesce((
                SELECT await_chains(array_agg(ids[step.place]), array_agg(link.position::integer), array_agg(link.chain),
                    false)
                FROM unnest(steps) WITH ORDINALITY AS step (queue, delay, earliest, envelope, after_chains, place),
                    unnest(step.after_chains) WITH ORDINALITY AS link (chain, position)
                WHERE step.place = ANY (going) HAVING count(*) > 0), '{}');
        END IF;
    END IF;
    IF cancelled IS NOT NULL THEN
        woken := woken || remove(cancelled) || ARRAY(SELECT 'finished ' || id FROM unnest(cancelled) AS id);
    END IF;
END $$;
