-- Takes one share of a hint. Creates nothing, and a hint keeps its TTL: DECR leaves it as it is. One that
-- another program has left without a TTL, as the script of @queuert/redis 0.11 does, is given one.
-- KEYS: 1 the hint
-- ARGV: 1 for how many seconds a hint is kept
-- Returns 1 if there was a share left, else 0.
-- What another program may have put there instead of a number is no share.
local said = redis.pcall('GET', KEYS[1])
local left = type(said) == 'string' and tonumber(said) or 0
if left > 0 then redis.pcall('DECR', KEYS[1]) end
if redis.call('PTTL', KEYS[1]) == -1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
return left > 0 and 1 or 0
