-- Registers and renews sessions. Returns in order: 0 the session is held, 1 it is held and is to
-- end, 2 it is lost.
--
-- Locks the kinds of the workers, so that a slot that is found free for a forgotten session is
-- still free when the session is inserted. These sessions are inserted one by one: each takes a
-- slot that the next may want.
CREATE OR REPLACE FUNCTION attach_sessions(ids text[], on_members text[], holders text[], ttls bigint[], keeps bigint[],
    connecteds boolean[], takes boolean[], details bytea[], starts bigint[], musts boolean[],
    OUT answers smallint[], OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    moment bigint := lock_fleet(ARRAY(SELECT split_part(held, ':', 1) FROM unnest(on_members) AS held), false);
BEGIN
    WITH told AS MATERIALIZED (
        SELECT said.*, held.member IS NOT NULL AS known, held.closing, held.anothers,
            held.member = said.member AND (NOT held.anothers OR said.take) AS good
        FROM unnest(ids, on_members, holders, ttls, keeps, connecteds, takes) WITH ORDINALITY
            AS said (id, member, holder, ttl, keep, connected, take, place)
            LEFT JOIN LATERAL (
                SELECT member, closing, connected AND holder <> said.holder AS anothers
                FROM sessions WHERE id = ANY (ARRAY[said.id]) AND until + 0 > moment OFFSET 0
            ) AS held ON true
    ),
    extended AS (
        UPDATE sessions
        SET holder = told.holder, until = moment + greatest(told.ttl, told.keep), connected = told.connected
        FROM told WHERE sessions.id = ANY (ARRAY[told.id]) AND told.good
    ),
    looked_at_sooner AS (
        UPDATE members SET full_until = 0
        FROM told WHERE members.id = ANY (ARRAY[told.member]) AND told.good
            AND members.full_until > moment + greatest(told.ttl, told.keep)
    )
    SELECT array_agg(CASE WHEN NOT known THEN 3 WHEN NOT good THEN 2 WHEN closing THEN 1 ELSE 0 END ORDER BY place),
        coalesce(array_agg('session ' || id) FILTER (WHERE good AND anothers), '{}')
    INTO answers, woken FROM told;
    FOR place IN 1..cardinality(ids) LOOP
        CONTINUE WHEN answers[place] < 3;
        IF musts[place] THEN
            answers[place] := 1;
            CONTINUE;
        END IF;
        DELETE FROM sessions WHERE id = ids[place];
        PERFORM 1 FROM members WHERE id = on_members[place] AND concurrent <= (
            SELECT count(*) FROM sessions WHERE member = on_members[place] AND until > moment);
        IF FOUND THEN
            answers[place] := 2;
        ELSE
            INSERT INTO sessions (id, member, until, keep, started_at, connected, holder, detail)
            VALUES (ids[place], on_members[place], moment + greatest(ttls[place], keeps[place]), keeps[place],
                starts[place], connecteds[place], holders[place], details[place]);
            UPDATE members SET lifetime = lifetime + 1 WHERE id = on_members[place];
            answers[place] := 0;
        END IF;
    END LOOP;
END $$;
