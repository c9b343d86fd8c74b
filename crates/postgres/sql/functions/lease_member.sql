-- Gives a worker to a session, or a position in the line of its kind and first offer. `given` is
-- null if no worker is available; `ahead` is null if the session does not wait either. Without
-- a wait time it does not want to wait.
--
-- Locks the kind: the counts stay valid until the session is inserted, and waiting sessions are
-- serialized.
CREATE OR REPLACE FUNCTION lease_member(asked lease_row, standing bigint, OUT given text, OUT at_endpoint text,
    OUT by_offer text, OUT lasts bigint, OUT ahead bigint, OUT waiting bigint, OUT workers bigint, OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    moment bigint := lock_fleet(ARRAY[asked.kind], false);
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
    WHERE sessions.id = asked.session AND sessions.until + 0 > moment;
    IF by_offer IS NOT NULL AND given <> ALL (asked.refused) THEN
        lasts := moment + greatest(asked.ttl, held_keep);
        UPDATE sessions SET until = lasts WHERE id = asked.session;
        UPDATE members SET full_until = 0 WHERE id = given AND full_until > lasts;
        RETURN;
    END IF;
    IF given IS NOT NULL THEN
        had_turn := given = ANY (asked.refused);
        DELETE FROM sessions WHERE id = asked.session;
        woken := sessions_ended(ARRAY[given], moment, standing);
        given := NULL;
    END IF;
    SELECT seq INTO own FROM tickets
    WHERE session = asked.session AND kind || '' = asked.kind AND offer || '' = asked.offers[1] AND until + 0 > moment;
    SELECT count(*) FILTER (WHERE own IS NULL OR seq < own), count(*) INTO ahead, waiting FROM tickets
    WHERE kind = asked.kind AND offer = asked.offers[1] AND until + 0 > moment AND session || '' <> asked.session;
    IF had_turn THEN
        ahead := 0;
    END IF;
    IF ahead > 0 THEN
        -- Mostly the first session rejects no worker, and that decides.
        SELECT refused INTO among FROM tickets
        WHERE kind = asked.kind AND offer = asked.offers[1] AND until + 0 > moment ORDER BY seq LIMIT 1;
    END IF;
    IF among <> '{}' THEN
        among := ARRAY(
            SELECT member FROM tickets, unnest(tickets.refused) AS member
            WHERE kind = asked.kind AND offer = asked.offers[1] AND until + 0 > moment AND session || '' <> asked.session
                AND (own IS NULL OR seq < own)
            GROUP BY member HAVING count(DISTINCT session) = ahead
        );
    END IF;
    SELECT count(*) FILTER (WHERE status = 0), count(*) INTO available, workers FROM members
    WHERE kind = asked.kind AND offer = ANY (asked.offers) AND stale_at + 0 > moment;
    IF ahead = 0 OR among <> '{}' THEN
        given := choose_member(asked.kind, asked.offers, asked.refused, among, available, moment);
        SELECT endpoint, offer INTO at_endpoint, by_offer FROM members WHERE id = given;
    END IF;
    IF given IS NOT NULL THEN
        lasts := moment + greatest(asked.ttl, asked.keep);
        UPDATE members SET lifetime = lifetime + 1 WHERE id = given RETURNING most > 0 AND lifetime >= most INTO is_spent;
        IF is_spent THEN
            -- Its owner can start a replacement.
            woken := woken || ('member ' || given);
        END IF;
        -- An expired session with the same id may exist.
        DELETE FROM sessions WHERE id = asked.session;
        INSERT INTO sessions (id, member, until, keep, started_at, connected, holder, detail)
        VALUES (asked.session, given, lasts, asked.keep, moment, false, asked.holder, asked.detail);
        DELETE FROM tickets WHERE session = asked.session;
        woken := woken || places(ARRAY[asked.kind], moment);
    ELSIF own IS NOT NULL AND asked.wait_ttl IS NOT NULL THEN
        UPDATE tickets SET holder = asked.holder, until = moment + asked.wait_ttl, refused = asked.refused
        WHERE session = asked.session;
    ELSE
        DELETE FROM tickets WHERE session = asked.session;
        IF asked.wait_ttl IS NOT NULL AND (had_turn OR waiting < asked.max_waiting) THEN
            INSERT INTO tickets (session, until, kind, offer, holder, refused)
            VALUES (asked.session, moment + asked.wait_ttl, asked.kind, asked.offers[1], asked.holder, asked.refused);
            UPDATE tickets SET seq = (SELECT min(seq) - 1 FROM tickets WHERE kind = asked.kind AND offer = asked.offers[1])
            WHERE session = asked.session AND had_turn;
        ELSE
            ahead := NULL;
            woken := woken || places(ARRAY[asked.kind], moment);
        END IF;
    END IF;
END $$;
