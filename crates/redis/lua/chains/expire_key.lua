-- Ends the life of a deduplication key with that of its chain: at once, or when the chain's record goes. A key that
-- another chain has by now is left alone. Twice is once.
-- KEYS  key, reserved, errands
-- ARGV  the key itself, chain, time in ms (0: at once)
expect(KEYS[2], 'hash')
expect(KEYS[3], 'zset')
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
