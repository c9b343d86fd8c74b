-- Assigns a reserved deduplication key to its chain, which has been created. May be repeated.
-- KEYS  key, reserved, errands
-- ARGV  the key itself, its value as read ('? STARTED CHAIN')
-- Returns the key's value afterwards; '' if there is none.
expect_type(KEYS[2], 'hash')
expect_type(KEYS[3], 'zset')
local found = redis.call('GET', KEYS[1]) or ''
if found ~= ARGV[2] or string.sub(found, 1, 1) ~= '?' then return found end
local value = '=' .. string.sub(found, 2)
redis.call('SET', KEYS[1], value)
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], 'k ' .. ARGV[1])
return value
