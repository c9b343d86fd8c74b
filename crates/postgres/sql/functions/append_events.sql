-- Appends events to the journals of open runs, each in the order of the arrays. Returns for each: 0
-- it is in the journal, 1 to 4 the run has ended with this status, -1 there is no such run, -2 the
-- run had received it before, ended or not. An answer to a command deletes the alarm with the
-- command's number.
--
-- The caller has locked the rows of the runs in an earlier statement, so it may assign positions.
CREATE OR REPLACE FUNCTION append_events(targets text[], kinds smallint[], entries bytea[], event_ids bytea[],
    seqs bigint[]) RETURNS smallint[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    new_places bigint[] := '{}';
    answers smallint[];
BEGIN
    IF EXISTS (SELECT FROM unnest(event_ids) AS id WHERE id IS NOT NULL) THEN
        new_places := note_deliveries(targets, event_ids);
    END IF;
    WITH told AS MATERIALIZED (
        SELECT event.*, runs.status, runs.length,
            event.id IS NULL OR event.place = ANY (new_places) AS fresh
        FROM unnest(targets, kinds, entries, event_ids, seqs)
            WITH ORDINALITY AS event (run, kind, entry, id, seq, place)
            LEFT JOIN runs ON runs.id = ANY (ARRAY[event.run])
    ),
    new AS MATERIALIZED (
        SELECT run, kind, entry, seq, length + row_number() OVER (PARTITION BY run ORDER BY place) AS position
        FROM told WHERE status = 0 AND fresh
    ),
    written AS (
        INSERT INTO journal (run, position, kind, entry) SELECT run, position, kind, stamped(entry) FROM new
    ),
    grown AS (
        UPDATE runs SET length = longer.length
        FROM (SELECT run, max(position) AS length FROM new GROUP BY run) AS longer
        WHERE runs.id = ANY (ARRAY[longer.run])
    ),
    silenced AS (
        DELETE FROM alarms USING (SELECT run, seq FROM new WHERE seq IS NOT NULL) AS answered
        WHERE alarms.run = ANY (ARRAY[answered.run]) AND alarms.seq = ANY (ARRAY[answered.seq])
    )
    SELECT array_agg(CASE
        WHEN status IS NULL THEN -1
        WHEN status = 0 THEN CASE WHEN fresh THEN 0 ELSE -2 END
        WHEN id IS NOT NULL AND EXISTS (
            SELECT FROM deliveries WHERE deliveries.run = told.run AND deliveries.id = told.id OFFSET 0) THEN -2
        ELSE status END ORDER BY place) INTO answers FROM told;
    RETURN answers;
END $$;

-- Stores the ids of events, and returns the indexes of those that are the first with their id. The
-- caller has locked the rows of the runs.
CREATE OR REPLACE FUNCTION note_deliveries(targets text[], event_ids bytea[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    places bigint[];
BEGIN
    WITH first AS MATERIALIZED (
        SELECT min(place) AS place, event.run, event.id
        FROM unnest(targets, event_ids) WITH ORDINALITY AS event (run, id, place)
            JOIN runs ON runs.id = ANY (ARRAY[event.run]) AND runs.status + 0 = 0
        WHERE event.id IS NOT NULL GROUP BY event.run, event.id
    ),
    noted AS (
        INSERT INTO deliveries (run, id, at) SELECT run, id, now_ms() FROM first ORDER BY run COLLATE "C", id
        ON CONFLICT DO NOTHING RETURNING run, id
    )
    -- A run id contains no space, so the concatenation is unambiguous.
    SELECT coalesce(array_agg(place), '{}') INTO places FROM first
    WHERE convert_to(run || ' ', 'UTF8') || id
        = ANY (ARRAY(SELECT convert_to(run || ' ', 'UTF8') || id FROM noted));
    RETURN places;
END $$;
