-- Removes the records among these ids whose time is over, so that the ids can be used again before prune has
-- come by. Locks nothing else, and skips what prune is at.
--
-- $1 ids
DELETE FROM jobs WHERE id IN (
    SELECT jobs.id FROM unnest($1::text[]) AS asked (id) JOIN jobs ON jobs.id = asked.id
    WHERE jobs.state IN (3, 4) AND jobs.due <= now_ms()
    FOR UPDATE OF jobs SKIP LOCKED
)
