-- Removes one batch of records whose time is over. Skips what another prune has locked.
--
-- $1 at most
DELETE FROM jobs WHERE id = ANY (ARRAY(
    SELECT id FROM jobs WHERE state IN (3, 4) AND due <= now_ms()
    ORDER BY due LIMIT $1 FOR UPDATE SKIP LOCKED
))
