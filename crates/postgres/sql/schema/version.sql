-- The newest migration that has been run.
SELECT coalesce(max(version), 0) AS version FROM tidemill.migrations
