-- Deletes dead letters. FOR UPDATE by id serializes two drops, and waits for transactions in which
-- jobs begin to wait for these chains.
CREATE OR REPLACE FUNCTION drop_letters(target integer, letters text[], OUT dropped bigint, OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    ids text[];
BEGIN
    ids := ARRAY(SELECT id FROM jobs WHERE id = ANY (letters) AND state + 0 = 2 AND queue = target ORDER BY id FOR UPDATE);
    dropped := cardinality(ids);
    woken := remove(ids);
END $$;
