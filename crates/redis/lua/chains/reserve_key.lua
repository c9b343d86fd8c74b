-- Reserves a deduplication key for a chain that is to be made, with all that is needed to make it: whoever comes next
-- makes it if the caller dies.
-- KEYS  key, reserved, errands
-- ARGV  the key itself, chain, what it is made of, the value that is to be replaced ('' if there is none), grace in ms
-- Returns the time in ms and the key's value: the caller's own, '? STARTED CHAIN', and 'new'; or what is there
-- instead, which may be '= STARTED CHAIN', or '' if what was to be replaced is gone.
expect(KEYS[2], 'hash')
expect(KEYS[3], 'zset')
local time, found = now(), redis.call('GET', KEYS[1]) or ''
if found ~= ARGV[4] then return { whole(time), found } end
local value = '? ' .. whole(time) .. ' ' .. ARGV[2]
redis.call('SET', KEYS[1], value)
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
redis.call('ZADD', KEYS[3], whole(time + tonumber(ARGV[5])), 'k ' .. ARGV[1])
return { whole(time), value, 'new' }
