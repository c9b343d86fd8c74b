-- Removes workers without a recent heartbeat, with their sessions, expired sessions, and expired
-- tickets: a bounded number of each.
--
-- Reads without a lock, locks the kinds of what it found, and removes what is still expired.
CREATE OR REPLACE FUNCTION reap_fleet(most_each bigint, standing bigint, OUT dead text[], OUT sessions_over bigint,
    OUT waiting_over bigint, OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    moment bigint := now_ms();
    run_out text[];
    unasked text[];
    kinds text[];
BEGIN
    dead := ARRAY(SELECT id FROM members WHERE stale_at <= moment ORDER BY stale_at LIMIT most_each);
    run_out := ARRAY(SELECT id FROM sessions WHERE until <= moment ORDER BY until LIMIT most_each);
    unasked := ARRAY(SELECT session FROM tickets WHERE until <= moment ORDER BY until LIMIT most_each);
    sessions_over := 0;
    waiting_over := 0;
    IF dead || run_out || unasked = '{}' THEN
        RETURN;
    END IF;
    moment := lock_fleet(ARRAY(SELECT split_part(gone, ':', 1) FROM unnest(dead) AS gone
        UNION ALL SELECT split_part(member, ':', 1) FROM sessions WHERE id = ANY (run_out)
        UNION ALL SELECT kind FROM tickets WHERE session = ANY (unasked)), false);
    WITH gone AS (DELETE FROM members WHERE id = ANY (dead) AND stale_at + 0 <= moment RETURNING id)
    SELECT coalesce(array_agg(id), '{}') INTO dead FROM gone;
    DELETE FROM sessions WHERE member = ANY (dead);
    GET DIAGNOSTICS sessions_over = ROW_COUNT;
    WITH gone AS (DELETE FROM sessions WHERE id = ANY (run_out) AND until + 0 <= moment RETURNING member)
    SELECT coalesce(array_agg(member), '{}') INTO run_out FROM gone;
    sessions_over := sessions_over + cardinality(run_out);
    WITH gone AS (DELETE FROM tickets WHERE session = ANY (unasked) AND until + 0 <= moment RETURNING kind)
    SELECT coalesce(array_agg(kind), '{}') INTO kinds FROM gone;
    waiting_over := cardinality(kinds);
    woken := sessions_ended(run_out, moment, standing) || places(kinds, moment);
END $$;
