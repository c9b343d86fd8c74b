-- Enters workers, without anything that earlier ones of the same ids left. Returns the wake-ups.
-- Locks their kinds.
CREATE OR REPLACE FUNCTION join_members(workers member_row[], OUT woken text[])
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM part_members(ARRAY(SELECT worker.id FROM unnest(workers) AS worker));
    woken := (beat_members(workers, 0)).woken;
END $$;
