-- Marks and reads the oldest rows. Claimed rows are deleted at once, so the scan is as short as the
-- batch.
UPDATE tidemill_floor SET taken = 1 WHERE seq IN (SELECT seq FROM tidemill_floor WHERE taken = 0 ORDER BY seq LIMIT ?1)
RETURNING seq, envelope
