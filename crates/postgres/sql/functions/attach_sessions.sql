-- Registers and renews sessions. Returns in order: 0 the session is held, 1 it is held and is to
-- end, 2 it is lost.
--
-- Locks the kinds of the workers, so that a slot that is found free for a forgotten session is
-- still free when the session is inserted. These sessions are inserted one by one: each takes a
-- slot that the next may want.
CREATE OR REPLACE FUNCTION attach_sessions(held_sessions session_row[], OUT answers smallint[], OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    moment bigint := lock_fleet(ARRAY(SELECT split_part(held.member, ':', 1) FROM unnest(held_sessions) AS held), false);
    said session_row;
BEGIN
    WITH told AS MATERIALIZED (
        SELECT said.*, held.member IS NOT NULL AS known, held.closing, held.anothers,
            held.member = said.member AND (NOT held.anothers OR said.take_over) AS good
        FROM unnest(held_sessions) WITH ORDINALITY
            AS said (id, member, holder, ttl, keep, connected, take_over, must_exist, started_at, detail, place)
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
    FOR place IN 1..cardinality(held_sessions) LOOP
        CONTINUE WHEN answers[place] < 3;
        said := held_sessions[place];
        IF said.must_exist THEN
            answers[place] := 1;
            CONTINUE;
        END IF;
        DELETE FROM sessions WHERE id = said.id;
        PERFORM 1 FROM members WHERE id = said.member AND concurrent <= (
            SELECT count(*) FROM sessions WHERE member = said.member AND until > moment);
        IF FOUND THEN
            answers[place] := 2;
        ELSE
            INSERT INTO sessions (id, member, until, keep, started_at, connected, holder, detail)
            VALUES (said.id, said.member, moment + greatest(said.ttl, said.keep), said.keep, said.started_at,
                said.connected, said.holder, said.detail);
            UPDATE members SET lifetime = lifetime + 1 WHERE id = said.member;
            answers[place] := 0;
        END IF;
    END LOOP;
END $$;
