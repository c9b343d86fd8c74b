-- Claims rows, each for one caller only.
--
-- $1 limit
UPDATE tidemill.floor SET state = 1 WHERE id = ANY (ARRAY(
    SELECT id FROM tidemill.floor WHERE state = 0 ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED
)) RETURNING id, data
