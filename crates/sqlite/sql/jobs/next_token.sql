-- The next token. All jobs of a claim share it: together with the job's number it is unique.
UPDATE tidemill_fence SET token = token + 1 RETURNING token
