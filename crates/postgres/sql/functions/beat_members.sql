-- Heartbeats of workers, with their entries. Unknown workers are inserted; sessions that they have
-- already, because their holders attached first, count in their lifetimes. A worker that missed too
-- many heartbeats, or sent none since the server may have lost data, gets a time of grace too:
-- sessions that nobody could renew meanwhile, or that were lost, may be held. Returns in the order
-- of the workers.
--
-- Locks the kinds of the workers. If a worker occurs twice, its last entry counts.
CREATE OR REPLACE FUNCTION beat_members(workers member_row[], grace bigint, OUT drains boolean[], OUT actives bigint[], OUT lifetimes bigint[], OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    moment bigint := lock_fleet(ARRAY(SELECT said.kind FROM unnest(workers) AS said), false);
    current_word uuid := (SELECT word FROM memory WHERE one);
    known text[] := ARRAY(SELECT id FROM members
        WHERE id = ANY (ARRAY(SELECT said.id FROM unnest(workers) AS said)));
BEGIN
    woken := ARRAY(SELECT DISTINCT 'places ' || said.kind FROM unnest(workers) AS said
        WHERE said.id <> ALL (known));
    INSERT INTO members (id, kind, offer, endpoint, status, concurrent, most, fresh, detail, beat_at, heard, stale_at,
        grace_until, lifetime)
    SELECT DISTINCT ON (said.id) said.id, said.kind, said.offer, said.endpoint, said.status, said.concurrent, said.most,
        said.fresh, said.detail, moment, current_word, moment + said.fresh, moment + grace,
        (SELECT count(*) FROM sessions WHERE member = said.id AND until > moment)
    FROM unnest(workers) WITH ORDINALITY
        AS said (id, kind, offer, endpoint, status, concurrent, most, fresh, detail, place)
    ORDER BY said.id, said.place DESC
    ON CONFLICT (id) DO UPDATE SET offer = excluded.offer, endpoint = excluded.endpoint, status = excluded.status,
        concurrent = excluded.concurrent, most = excluded.most, fresh = excluded.fresh, detail = excluded.detail,
        beat_at = excluded.beat_at, heard = excluded.heard, stale_at = excluded.stale_at,
        grace_until = CASE WHEN members.stale_at <= moment OR members.heard <> excluded.heard THEN excluded.grace_until ELSE members.grace_until END,
        full_until = CASE WHEN excluded.concurrent > members.concurrent THEN 0 ELSE members.full_until END;
    SELECT array_agg(ordered_until > moment ORDER BY place), array_agg(active ORDER BY place),
        array_agg(lifetime ORDER BY place) INTO drains, actives, lifetimes
    FROM unnest(workers) WITH ORDINALITY
        AS said (id, kind, offer, endpoint, status, concurrent, most, fresh, detail, place)
        JOIN members ON members.id = ANY (ARRAY[said.id]),
        LATERAL (SELECT count(*) AS active FROM sessions WHERE member = said.id AND until > moment) AS held;
END $$;
