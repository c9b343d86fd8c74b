-- The wake-ups for kinds of workers that may have a free slot: none for kinds that no session waits
-- for. Locks nothing.
CREATE OR REPLACE FUNCTION places(kinds text[], moment bigint) RETURNS text[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN ARRAY(
        SELECT DISTINCT 'places ' || wanted FROM unnest(kinds) AS wanted
        WHERE EXISTS (SELECT FROM tickets WHERE kind = ANY (ARRAY[wanted]) AND until + 0 > moment OFFSET 0)
    );
END $$;
