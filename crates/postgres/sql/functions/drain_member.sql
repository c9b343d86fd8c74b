-- Orders a worker to drain. Locks its kind: once this has returned, no lease gives this worker.
CREATE OR REPLACE FUNCTION drain_member(target text, standing bigint, OUT was_there boolean, OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    moment bigint := lock_fleet(ARRAY[split_part(target, ':', 1)], true);
BEGIN
    UPDATE members SET ordered_until = moment + standing WHERE id = target;
    was_there := FOUND;
    woken := CASE WHEN was_there THEN ARRAY['member ' || target] END;
END $$;
