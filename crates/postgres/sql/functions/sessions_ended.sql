-- Frees the slots of ended sessions on these workers, and orders workers that have had all their
-- sessions to drain. Returns the wake-ups. The caller has locked the kinds of the workers.
CREATE OR REPLACE FUNCTION sessions_ended(on_members text[], moment bigint, standing bigint) RETURNS text[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF on_members = '{}' THEN
        RETURN '{}';
    END IF;
    UPDATE members
    SET full_until = 0,
        ordered_until = CASE WHEN most > 0 AND lifetime >= most THEN moment + standing ELSE ordered_until END
    WHERE id = ANY (on_members) AND (full_until > 0 OR most > 0 AND lifetime >= most);
    RETURN ARRAY(SELECT DISTINCT 'member ' || ended FROM unnest(on_members) AS ended)
        || places(ARRAY(SELECT split_part(ended, ':', 1) FROM unnest(on_members) AS ended), moment);
END $$;
