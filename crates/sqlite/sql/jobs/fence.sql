-- The next token. One for all jobs of a claim: together with the job's number it is unique.
UPDATE tidemill_fence SET token = token + 1 RETURNING token
