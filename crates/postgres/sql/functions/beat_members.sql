-- Heartbeats of workers, with their entries. Unknown workers are inserted; sessions that they have
-- already, because their holders attached first, count in their lifetimes. A worker that missed too
-- many heartbeats, or sent none since the server may have lost data, gets a time of grace too:
-- sessions that nobody could renew meanwhile, or that were lost, may be held. Returns in the order
-- of the workers.
--
-- Locks the kinds of the workers. If a worker occurs twice, its last entry counts.
CREATE OR REPLACE FUNCTION beat_members(ids text[], kinds text[], offers text[], endpoints text[], statuses smallint[],
    concurrents bigint[], mosts bigint[], freshes bigint[], details bytea[], grace bigint,
    OUT drains boolean[], OUT actives bigint[], OUT lifetimes bigint[], OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    moment bigint := lock_fleet(kinds, false);
    current_word uuid := (SELECT word FROM memory WHERE one);
    known text[] := ARRAY(SELECT id FROM members WHERE id = ANY (ids));
BEGIN
    woken := ARRAY(SELECT DISTINCT 'places ' || said.kind FROM unnest(ids, kinds) AS said (id, kind)
        WHERE said.id <> ALL (known));
    INSERT INTO members (id, kind, offer, endpoint, status, concurrent, most, fresh, detail, beat_at, heard, stale_at,
        grace_until, lifetime)
    SELECT DISTINCT ON (said.id) said.id, said.kind, said.offer, said.endpoint, said.status, said.concurrent, said.most,
        said.fresh, said.detail, moment, current_word, moment + said.fresh, moment + grace,
        (SELECT count(*) FROM sessions WHERE member = said.id AND until > moment)
    FROM unnest(ids, kinds, offers, endpoints, statuses, concurrents, mosts, freshes, details) WITH ORDINALITY
        AS said (id, kind, offer, endpoint, status, concurrent, most, fresh, detail, place)
    ORDER BY said.id, said.place DESC
    ON CONFLICT (id) DO UPDATE SET offer = excluded.offer, endpoint = excluded.endpoint, status = excluded.status,
        concurrent = excluded.concurrent, most = excluded.most, fresh = excluded.fresh, detail = excluded.detail,
        beat_at = excluded.beat_at, heard = excluded.heard, stale_at = excluded.stale_at,
        grace_until = CASE WHEN members.stale_at <= moment OR members.heard <> excluded.heard THEN excluded.grace_until ELSE members.grace_until END,
        full_until = CASE WHEN excluded.concurrent > members.concurrent THEN 0 ELSE members.full_until END;
    SELECT array_agg(ordered_until > moment ORDER BY place), array_agg(active ORDER BY place),
        array_agg(lifetime ORDER BY place) INTO drains, actives, lifetimes
    FROM unnest(ids) WITH ORDINALITY AS said (id, place)
        JOIN members ON members.id = ANY (ARRAY[said.id]),
        LATERAL (SELECT count(*) AS active FROM sessions WHERE member = said.id AND until > moment) AS held;
END $$;
