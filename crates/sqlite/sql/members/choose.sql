-- The workers that can be leased if they have a free slot, the most used first. Columns: capacity
-- and lifetime, from which core decides. The write lock is held, so the result stays valid until
-- the session is inserted. ?5 restricts the workers; NULL means all. The caller stops reading
-- early, so rows must come in the order of the index.
SELECT id, concurrent, most, lifetime
FROM tidemill_members INDEXED BY tidemill_members_by_wear
WHERE kind = ?1 AND full_until <= ?4 AND status = 'available' AND stale_at > ?4 AND ordered_until <= ?4 AND grace_until <= ?4
    AND (most = 0 OR lifetime < most) AND concurrent > 0 AND instr(?2, ' ' || offer || ' ') > 0
    AND instr(?3, ' ' || id || ' ') = 0 AND (?5 IS NULL OR instr(?5, ' ' || id || ' ') > 0)
ORDER BY lifetime DESC
