-- Removes waiters that have been notified of the end of a chain.
-- KEYS  waiters, notices, errands
-- ARGV  chain, then waiters
-- Returns 1 if all have been notified, 0 if there are more.
local shard = { waiters = KEYS[1], notices = KEYS[2], errands = KEYS[3] }
expect_type(shard.notices, 'hash')
expect_type(shard.errands, 'zset')
if #ARGV > 1 then redis.call('ZREM', shard.waiters, unpack(ARGV, 2)) end
if redis.call('HEXISTS', shard.notices, ARGV[1]) == 1 and first_waiter(shard, ARGV[1]) then return 0 end
redis.call('HDEL', shard.notices, ARGV[1])
redis.call('ZREM', shard.errands, 'c ' .. ARGV[1])
return 1
