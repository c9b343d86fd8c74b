-- Sessions on these members have ended: there are places, but those that are spent are ordered to drain. Answers what to announce. The caller
-- has locked the members' kinds.
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
