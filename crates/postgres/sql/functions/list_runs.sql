-- The ids of a page of runs, newest first, and where it ended: null if there are no more. Reads
-- 1,000 runs or a page at most if it filters, in the order of the index that excludes the most.
-- Locks nothing.
CREATE OR REPLACE FUNCTION list_runs(type text, in_status smallint, since bigint, attribute text, wanted bytea,
    before bigint, before_id text, most bigint, OUT ids text[], OUT last_started bigint, OUT last_id text)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    seen text[];
    scan bigint := CASE WHEN coalesce(type, attribute, in_status::text) IS NULL THEN most ELSE greatest(most, 1000) END;
BEGIN
    CASE
        WHEN attribute IS NOT NULL THEN
            seen := ARRAY(SELECT run FROM attributes
                WHERE name = attribute AND sha256(value) = sha256(wanted) AND started >= since
                    AND (started, run || '') < (before, before_id)
                ORDER BY started DESC, run || '' DESC LIMIT scan);
        WHEN in_status = 0 OR in_status IS NOT NULL AND type IS NULL THEN
            seen := ARRAY(SELECT id FROM runs
                WHERE status = in_status AND started >= since AND (started, id || '') < (before, before_id)
                ORDER BY started DESC, id || '' DESC LIMIT scan);
        WHEN type IS NOT NULL THEN
            seen := ARRAY(SELECT id FROM runs
                WHERE workflow = type AND started >= since AND (started, id || '') < (before, before_id)
                ORDER BY started DESC, id || '' DESC LIMIT scan);
        ELSE
            seen := ARRAY(SELECT id FROM runs
                WHERE started >= since AND (started, id || '') < (before, before_id)
                ORDER BY started DESC, id || '' DESC LIMIT scan);
    END CASE;
    ids := ARRAY(SELECT id FROM runs
        WHERE id = ANY (seen) AND (type IS NULL OR workflow = type) AND (in_status IS NULL OR status + 0 = in_status)
            AND (attribute IS NULL OR EXISTS (
                SELECT FROM attributes WHERE run = runs.id AND name || '' = attribute AND value = wanted OFFSET 0))
        ORDER BY started + 0 DESC, id DESC LIMIT most);
    last_id := CASE WHEN cardinality(ids) = most THEN ids[most] WHEN cardinality(seen) = scan THEN seen[scan] END;
    last_started := (SELECT started FROM runs WHERE id = last_id);
END $$;
