-- Enters workers, without anything that earlier ones of the same ids left. Returns the wake-ups.
-- Locks their kinds.
CREATE OR REPLACE FUNCTION join_members(ids text[], kinds text[], offers text[], endpoints text[], statuses smallint[],
    concurrents bigint[], mosts bigint[], freshes bigint[], details bytea[], OUT woken text[])
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM part_members(ids);
    woken := (beat_members(ids, kinds, offers, endpoints, statuses, concurrents, mosts, freshes, details, 0)).woken;
END $$;
