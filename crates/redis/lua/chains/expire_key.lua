-- Expires a deduplication key with its chain: now, or together with the chain's record. Leaves a
-- key that another chain has acquired. May be repeated.
-- KEYS  key, reserved, errands
-- ARGV  one map: the key itself, chain, at (ms; none: now)
expect_type(KEYS[2], 'hash')
expect_type(KEYS[3], 'zset')
local args, found = cmsgpack.unpack(ARGV[1]), redis.call('GET', KEYS[1])
local started, chain = string.match(found or '', '^[?=] (%d+) (.+)$')
if chain ~= args.chain then return 0 end
if args.at then
  redis.call('SET', KEYS[1], '= ' .. started .. ' ' .. chain, 'PXAT', args.at)
else
  redis.call('DEL', KEYS[1])
end
redis.call('HDEL', KEYS[2], args.key)
redis.call('ZREM', KEYS[3], 'k ' .. args.key)
return 1
