-- Adds jobs to the hint of their type, as @queuert/redis counts since 0.12. One key, so that it
-- works on a Cluster.
-- KEYS  the hint of the type
-- ARGV  number of jobs, TTL of the hint in seconds
-- A key of another type must not prevent the announcement: without a hint, every listener polls.
redis.pcall('INCRBY', KEYS[1], ARGV[1])
redis.pcall('EXPIRE', KEYS[1], ARGV[2])
