-- Stages effects for a commit that is still to be made. Without it they are forgotten after a while.
-- KEYS  staged
-- ARGV  how long they are kept in ms, then effects, each packed
redis.call('RPUSH', KEYS[1], unpack(ARGV, 2))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
