-- Reserves a deduplication key for a chain that is about to be created, with all that is needed to
-- create it: the next caller creates it if this one dies.
-- KEYS  key, reserved, errands
-- ARGV  one map: the key itself, chain, stored_chain, replaced (the value to replace; '' if there is
--       none), grace (ms)
-- Returns the time in ms and the key's value: the caller's own, '? STARTED CHAIN', and 'new'; or
-- the value found instead, which may be '= STARTED CHAIN', or '' if the value to replace is gone.
expect_type(KEYS[2], 'hash')
expect_type(KEYS[3], 'zset')
local args, time, found = cmsgpack.unpack(ARGV[1]), now(), redis.call('GET', KEYS[1]) or ''
if found ~= args.replaced then return { int_text(time), found } end
local value = '? ' .. int_text(time) .. ' ' .. args.chain
redis.call('SET', KEYS[1], value)
redis.call('HSET', KEYS[2], args.key, args.stored_chain)
redis.call('ZADD', KEYS[3], int_text(time + args.grace), 'k ' .. args.key)
return { int_text(time), value, 'new' }
