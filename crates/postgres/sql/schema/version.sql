-- The newest migration that was run.
SELECT coalesce(max(version), 0) AS version FROM tidemill.migrations
