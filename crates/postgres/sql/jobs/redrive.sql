-- Makes dead letters ready again, each with a new number, so that a worker that had the job before
-- its death stays fenced. The letter of an earlier step no longer belongs to the chain, and that of
-- an earlier death not to the job. Letters are sorted by id, so that two redrives lock them in the
-- same order.
--
-- $1 queue   $2 chains   $3 steps   $4 envelopes   $5 letters as they were read
WITH back AS (
    UPDATE jobs SET state = 0, seq = nextval('job_seq'), due = now_ms(), envelope = letter.envelope
    FROM unnest($2::text[], $3::integer[], $4::bytea[], $5::bytea[]) AS letter (id, step, envelope, found)
    WHERE jobs.id = ANY (ARRAY[letter.id]) AND jobs.state = 2 AND jobs.queue = $1 AND jobs.step = letter.step
        AND jobs.envelope = letter.found
    RETURNING jobs.id, jobs.due, jobs.seq
)
INSERT INTO ready (queue, due, seq, id)
SELECT $1, due, seq, id FROM back
