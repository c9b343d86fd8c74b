-- What to announce when there may be places at members of these kinds: nothing where nobody waits. Locks nothing.
CREATE OR REPLACE FUNCTION places(kinds text[], moment bigint) RETURNS text[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN ARRAY(
        SELECT DISTINCT 'places ' || wanted FROM unnest(kinds) AS wanted
        WHERE EXISTS (SELECT FROM tickets WHERE kind = ANY (ARRAY[wanted]) AND until + 0 > moment OFFSET 0)
    );
END $$;
