-- The members that can be given if they have room, the most used first, and what is asked of core about each: how many
-- sessions it takes at once and in all, and has had. The write lock is held, so this stays so until the session is entered.
-- Of these only (?5), or of all. Read as far as needed only, so it must come in the order of the index.
SELECT id, concurrent, most, lifetime
FROM tidemill_members INDEXED BY tidemill_members_by_wear
WHERE kind = ?1 AND full_until <= ?4 AND status = 'available' AND stale_at > ?4 AND ordered_until <= ?4 AND grace_until <= ?4
    AND (most = 0 OR lifetime < most) AND concurrent > 0 AND instr(?2, ' ' || offer || ' ') > 0
    AND instr(?3, ' ' || id || ' ') = 0 AND (?5 IS NULL OR instr(?5, ' ' || id || ' ') > 0)
ORDER BY lifetime DESC
