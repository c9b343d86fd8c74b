-- Assigns a reserved deduplication key to its chain, which has been created. May be repeated.
-- KEYS  key, reserved, errands
-- ARGV  one map: the key itself, value (as read: '? STARTED CHAIN')
-- Returns the key's value afterwards; '' if there is none.
expect_type(KEYS[2], 'hash')
expect_type(KEYS[3], 'zset')
local args, found = cmsgpack.unpack(ARGV[1]), redis.call('GET', KEYS[1]) or ''
if found ~= args.value or string.sub(found, 1, 1) ~= '?' then return found end
local value = '=' .. string.sub(found, 2)
redis.call('SET', KEYS[1], value)
redis.call('HDEL', KEYS[2], args.key)
redis.call('ZREM', KEYS[3], 'k ' .. args.key)
return value
