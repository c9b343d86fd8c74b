-- Adds jobs to the hint of their type, as @queuert/redis counts since 0.12. One key only, so that it works on a Cluster.
-- KEYS: 1 the hint of the type
-- ARGV: 1 how many jobs there are   2 for how many seconds the hint is kept
-- What another program may have put there instead of a number must not keep anybody from being told: no hint means look.
redis.pcall('INCRBY', KEYS[1], ARGV[1])
redis.pcall('EXPIRE', KEYS[1], ARGV[2])
