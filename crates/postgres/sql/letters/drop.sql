-- Deletes letters for good. Letters come sorted by id, so that two drops lock them in the same order.
--
-- $1 queue   $2 ids
DELETE FROM jobs USING unnest($2::text[]) AS letter (id)
WHERE jobs.id = ANY (ARRAY[letter.id]) AND jobs.state = 2 AND jobs.queue = $1
