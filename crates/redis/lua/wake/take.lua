-- Takes one share of a hint. Creates nothing, and a hint keeps its TTL, which DECR leaves
-- unchanged. A hint that another program left without a TTL, as @queuert/redis 0.11 does, gets one.
-- KEYS  the hint
-- ARGV  TTL of a hint in seconds
-- Returns 1 if a share was left, else 0. A value that is no number has no share.
local said = redis.pcall('GET', KEYS[1])
local left = type(said) == 'string' and tonumber(said) or 0
if left > 0 then redis.pcall('DECR', KEYS[1]) end
if redis.call('PTTL', KEYS[1]) == -1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
return left > 0 and 1 or 0
