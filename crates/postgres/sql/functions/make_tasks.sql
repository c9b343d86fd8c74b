-- Makes the next task of those of these open runs that have events which no commit has consumed, and no task, in whatever
-- state. With an opening they are new runs, which have their first task anyway.
--
-- The caller has locked the runs' rows in an earlier statement, so nobody else makes these tasks.
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

-- The envelope of a task: the same bytes as `task` makes, with up to MAX_NEWS events and to the one by which they come to
-- MAX_NEWS_BYTES. How long an entry is is known without reading it. Locks nothing.
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
