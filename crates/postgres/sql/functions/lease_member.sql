-- Gives a worker to a session, or a position in the line of its kind and first offer. `given` is
-- null if no worker is available; `ahead` is null if the session does not wait either. Without
-- `line_ttl` it does not want to wait.
--
-- Locks the kind: the counts stay valid until the session is inserted, and waiting sessions are
-- serialized.
CREATE OR REPLACE FUNCTION lease_member(target text, wanted text, offers text[], by_holder text, ttl bigint,
    new_keep bigint, new_detail bytea, refused text[], line_most bigint, line_ttl bigint, standing bigint,
    OUT given text, OUT at_endpoint text, OUT by_offer text, OUT lasts bigint, OUT ahead bigint, OUT waiting bigint,
    OUT workers bigint, OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    moment bigint := lock_fleet(ARRAY[wanted], false);
    held_keep bigint;
    own bigint;
    among text[];                -- with sessions before it: the workers that all of these reject
    had_turn boolean := false;   -- a session that rejected its worker goes to the front
    available bigint;            -- the margin of a choice depends on it; `workers` also counts draining ones
    is_spent boolean;
BEGIN
    woken := '{}';
    SELECT sessions.member, sessions.keep, members.endpoint, members.offer INTO given, held_keep, at_endpoint, by_offer
    FROM sessions LEFT JOIN members ON members.id = ANY (ARRAY[sessions.member])
    WHERE sessions.id = target AND sessions.until + 0 > moment;
    IF by_offer IS NOT NULL AND given <> ALL (refused) THEN
        lasts := moment + greatest(ttl, held_keep);
        UPDATE sessions SET until = lasts WHERE id = target;
        UPDATE members SET full_until = 0 WHERE id = given AND full_until > lasts;
        RETURN;
    END IF;
    IF given IS NOT NULL THEN
        had_turn := given = ANY (refused);
        DELETE FROM sessions WHERE id = target;
        woken := sessions_ended(ARRAY[given], moment, standing);
        given := NULL;
    END IF;
    SELECT seq INTO own FROM tickets
    WHERE session = target AND kind || '' = wanted AND offer || '' = offers[1] AND until + 0 > moment;
    SELECT count(*) FILTER (WHERE own IS NULL OR seq < own), count(*) INTO ahead, waiting FROM tickets
    WHERE kind = wanted AND offer = offers[1] AND until + 0 > moment AND session || '' <> target;
    IF had_turn THEN
        ahead := 0;
    END IF;
    IF ahead > 0 THEN
        -- Mostly the first session rejects no worker, and that decides.
        SELECT refused INTO among FROM tickets
        WHERE kind = wanted AND offer = offers[1] AND until + 0 > moment ORDER BY seq LIMIT 1;
    END IF;
    IF among <> '{}' THEN
        among := ARRAY(
            SELECT member FROM tickets, unnest(tickets.refused) AS member
            WHERE kind = wanted AND offer = offers[1] AND until + 0 > moment AND session || '' <> target
                AND (own IS NULL OR seq < own)
            GROUP BY member HAVING count(DISTINCT session) = ahead
        );
    END IF;
    SELECT count(*) FILTER (WHERE status = 0), count(*) INTO available, workers FROM members
    WHERE kind = wanted AND offer = ANY (offers) AND stale_at + 0 > moment;
    IF ahead = 0 OR among <> '{}' THEN
        given := choose_member(wanted, offers, lease_member.refused, among, available, moment);
        SELECT endpoint, offer INTO at_endpoint, by_offer FROM members WHERE id = given;
    END IF;
    IF given IS NOT NULL THEN
        lasts := moment + greatest(ttl, new_keep);
        UPDATE members SET lifetime = lifetime + 1 WHERE id = given RETURNING most > 0 AND lifetime >= most INTO is_spent;
        IF is_spent THEN
            -- Its owner can start a replacement.
            woken := woken || ('member ' || given);
        END IF;
        -- An expired session with the same id may exist.
        DELETE FROM sessions WHERE id = target;
        INSERT INTO sessions (id, member, until, keep, started_at, connected, holder, detail)
        VALUES (target, given, lasts, new_keep, moment, false, by_holder, new_detail);
        DELETE FROM tickets WHERE session = target;
        woken := woken || places(ARRAY[wanted], moment);
    ELSIF own IS NOT NULL AND line_ttl IS NOT NULL THEN
        UPDATE tickets SET holder = by_holder, until = moment + line_ttl, refused = lease_member.refused
        WHERE session = target;
    ELSE
        DELETE FROM tickets WHERE session = target;
        IF line_ttl IS NOT NULL AND (had_turn OR waiting < line_most) THEN
            INSERT INTO tickets (session, until, kind, offer, holder, refused)
            VALUES (target, moment + line_ttl, wanted, offers[1], by_holder, lease_member.refused);
            UPDATE tickets SET seq = (SELECT min(seq) - 1 FROM tickets WHERE kind = wanted AND offer = offers[1])
            WHERE session = target AND had_turn;
        ELSE
            ahead := NULL;
            woken := woken || places(ARRAY[wanted], moment);
        END IF;
    END IF;
END $$;
