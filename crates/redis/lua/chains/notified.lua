-- Takes note that some who waited for a chain were told of its end.
-- KEYS  waiters, notices, errands
-- ARGV  chain, then waiters
-- Returns 1 if all of them were, 0 if there are more.
local h = { waiters = KEYS[1], notices = KEYS[2], errands = KEYS[3] }
expect(h.notices, 'hash')
expect(h.errands, 'zset')
if #ARGV > 1 then redis.call('ZREM', h.waiters, unpack(ARGV, 2)) end
if redis.call('HEXISTS', h.notices, ARGV[1]) == 1 and awaited(h, ARGV[1]) then return 0 end
redis.call('HDEL', h.notices, ARGV[1])
redis.call('ZREM', h.errands, 'c ' .. ARGV[1])
return 1
