-- Stages effects for a later commit. Without that commit they expire.
-- KEYS  staged
-- ARGV  one map: ttl (ms), effects, each packed as it is stored
local args = cmsgpack.unpack(ARGV[1])
redis.call('RPUSH', KEYS[1], unpack(args.effects))
redis.call('PEXPIRE', KEYS[1], args.ttl)
return 1
