-- Creates the next task of those open runs that have unconsumed events and no task, in whatever
-- state. With an opening they are new runs, which get their first task anyway.
--
-- The caller has locked the rows of the runs in an earlier statement, so no other transaction
-- creates these tasks.
CREATE OR REPLACE FUNCTION make_tasks(targets text[], opening bytea DEFAULT NULL) RETURNS text[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    woken text[];
BEGIN
    WITH idle AS MATERIALIZED (
        SELECT runs.id, runs.queue, task_of(runs.id, runs.head, opening, runs.cursor, runs.last_commit) AS envelope
        FROM (SELECT DISTINCT id COLLATE "C" AS id FROM unnest(targets) AS id) AS asked
            JOIN runs ON runs.id = ANY (ARRAY[asked.id]) AND runs.status + 0 = 0
        WHERE NOT EXISTS (SELECT FROM jobs WHERE jobs.id = task_id(runs.id) OFFSET 0)
            AND (opening IS NOT NULL OR EXISTS (
                SELECT FROM journal WHERE run = runs.id AND position > runs.cursor AND kind > 0 OFFSET 0))
    ),
    made AS (
        INSERT INTO jobs (id, queue, due, envelope)
        SELECT task_id(id), queue, now_ms(), envelope FROM idle ORDER BY id
        ON CONFLICT (id) DO NOTHING
        RETURNING id, queue, due, seq
    ),
    put AS (
        INSERT INTO ready (queue, due, seq, id) SELECT queue, due, seq, id FROM made
    )
    SELECT wakes(array_agg(queue), array_agg(due)) INTO woken FROM made;
    RETURN woken;
END $$;

-- The envelope of a task: the same bytes as `task_envelope` makes, with up to MAX_TASK_EVENTS events, and up
-- to the one that reaches MAX_TASK_EVENT_BYTES. The length of an entry is known without reading it.
-- Locks nothing.
CREATE OR REPLACE FUNCTION task_of(run_id text, head bytea, opening bytea, done bigint, last_commit bigint) RETURNS bytea
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN head || coalesce(opening, '') || convert_to(',"cursor":' || done
            || coalesce(',"lastCommit":' || last_commit, '') || ',"news":[', 'UTF8') || coalesce((
        SELECT string_agg(convert_to('{"position":' || position || ',"entry":', 'UTF8') || entry || '}'::bytea,
            ','::bytea ORDER BY position)
        FROM (
            SELECT position, entry FROM (
                SELECT position, entry,
                    sum(octet_length(entry)) OVER (ORDER BY position) - octet_length(entry) AS before
                FROM journal WHERE run = run_id AND position > done AND kind > 0 ORDER BY position LIMIT 256
            ) AS line WHERE before < 1048576
        ) AS new
    ), '') || ']}'::bytea;
END $$;
