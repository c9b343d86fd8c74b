-- Removes waiters that have been notified of the end of a chain.
-- KEYS  waiters, notices, errands
-- ARGV  one map: chain, waiters
-- Returns 1 if all have been notified, 0 if there are more.
local args = cmsgpack.unpack(ARGV[1])
local shard = { waiters = KEYS[1], notices = KEYS[2], errands = KEYS[3] }
expect_type(shard.notices, 'hash')
expect_type(shard.errands, 'zset')
if #args.waiters > 0 then redis.call('ZREM', shard.waiters, unpack(args.waiters)) end
if redis.call('HEXISTS', shard.notices, args.chain) == 1 and first_waiter(shard, args.chain) then return 0 end
redis.call('HDEL', shard.notices, args.chain)
redis.call('ZREM', shard.errands, 'c ' .. args.chain)
return 1
