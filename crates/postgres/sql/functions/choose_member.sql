-- The member to give, of `workers` that live: below its end less the margin the one with the highest lifetime, of equals
-- the one with the fewest sessions; if there is none below, any. None if all are full. With `among` it is one of those.
--
-- Counting sessions is what costs, so members are looked at in the order of their index, only until one is found that none
-- can beat, and full ones are remembered as such. The caller has locked the kind, so what is counted stays so.
CREATE OR REPLACE FUNCTION choose_member(wanted text, offers text[], refused text[], among text[], workers bigint,
    moment bigint)
RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    next record;
    beyond text;
    best text;
    best_lifetime bigint;
    fewest bigint;
    current_word uuid := (SELECT word FROM memory WHERE one);
BEGIN
    FOR next IN
        SELECT id, concurrent, lifetime, most = 0 OR lifetime < most - greatest(most / greatest(workers, 1), 1) AS below,
            (SELECT count(*) FROM sessions WHERE member = members.id AND until > moment) AS active
        FROM members
        WHERE kind = wanted AND full_until <= moment AND status = 0 AND stale_at + 0 > moment AND offer = ANY (offers)
            AND heard = current_word
            AND ordered_until <= moment AND grace_until <= moment AND (most = 0 OR lifetime + 0 < most)
            AND concurrent > 0 AND id <> ALL (refused) AND (among IS NULL OR id = ANY (among))
        ORDER BY lifetime DESC
    LOOP
        EXIT WHEN next.lifetime <> best_lifetime;
        IF next.active >= next.concurrent THEN
            UPDATE members
            SET full_until = (SELECT min(until) FROM sessions WHERE member = next.id AND until > moment)
            WHERE id = next.id;
        ELSIF NOT next.below THEN
            beyond := coalesce(beyond, next.id);
        ELSIF best IS NULL OR next.active < fewest THEN
            best := next.id;
            best_lifetime := next.lifetime;
            fewest := next.active;
        END IF;
        EXIT WHEN fewest = 0;
    END LOOP;
    RETURN coalesce(best, beyond);
END $$;
