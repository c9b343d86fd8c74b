-- Removes the records among these ids whose time is over, so that the ids can be used again before prune has
-- come by. Locks nothing else, and skips what prune is at.
--
-- $1 ids
DELETE FROM jobs WHERE id = ANY (ARRAY(
    SELECT id FROM jobs
    WHERE id = ANY ($1::text[]) AND state IN (3, 4) AND due <= now_ms()
    FOR UPDATE SKIP LOCKED
))
