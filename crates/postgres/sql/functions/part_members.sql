-- Removes workers with their sessions. Locks their kinds.
CREATE OR REPLACE FUNCTION part_members(ids text[]) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM lock_fleet(ARRAY(SELECT split_part(gone, ':', 1) FROM unnest(ids) AS gone), false);
    DELETE FROM sessions WHERE member = ANY (ids);
    DELETE FROM members WHERE id = ANY (ids);
END $$;
