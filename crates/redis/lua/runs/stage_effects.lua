-- Stages effects for a later commit. Without that commit they expire.
-- KEYS  staged
-- ARGV  TTL in ms, then effects, each packed
redis.call('RPUSH', KEYS[1], unpack(ARGV, 2))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
