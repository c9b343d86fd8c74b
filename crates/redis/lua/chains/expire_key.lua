-- Expires a deduplication key with its chain: now, or together with the chain's record. Leaves a
-- key that another chain has acquired. May be repeated.
-- KEYS  key, reserved, errands
-- ARGV  the key itself, chain, time in ms (0: now)
expect_type(KEYS[2], 'hash')
expect_type(KEYS[3], 'zset')
local found = redis.call('GET', KEYS[1])
local started, chain = string.match(found or '', '^[?=] (%d+) (.+)$')
if chain ~= ARGV[2] then return 0 end
if ARGV[3] == '0' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], '= ' .. started .. ' ' .. chain, 'PXAT', ARGV[3])
end
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], 'k ' .. ARGV[1])
return 1
