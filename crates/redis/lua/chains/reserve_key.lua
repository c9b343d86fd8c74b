-- Reserves a deduplication key for a chain that is about to be created, with all that is needed to
-- create it: the next caller creates it if this one dies.
-- KEYS  key, reserved, errands
-- ARGV  the key itself, chain, the stored chain, the value to replace ('' if there is none), grace
--       in ms
-- Returns the time in ms and the key's value: the caller's own, '? STARTED CHAIN', and 'new'; or
-- the value found instead, which may be '= STARTED CHAIN', or '' if the value to replace is gone.
expect_type(KEYS[2], 'hash')
expect_type(KEYS[3], 'zset')
local time, found = now(), redis.call('GET', KEYS[1]) or ''
if found ~= ARGV[4] then return { int_text(time), found } end
local value = '? ' .. int_text(time) .. ' ' .. ARGV[2]
redis.call('SET', KEYS[1], value)
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
redis.call('ZADD', KEYS[3], int_text(time + tonumber(ARGV[5])), 'k ' .. ARGV[1])
return { int_text(time), value, 'new' }
