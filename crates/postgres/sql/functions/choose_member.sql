-- Chooses a worker. `workers` is the number of live workers. Among workers below their lifetime
-- less the margin, the one with the highest lifetime wins, then the one with the fewest sessions;
-- if there is none below, any. Null if all are full. `among` restricts the choice.
--
-- Counting sessions is the cost, so workers are read in the order of their index, only until one is
-- found that no other can beat, and full ones are marked as such. The caller has locked the kind,
-- so the counts stay valid.
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
