-- Lets a stream give out entries again, from where it was paused.
-- KEYS  stream, paused
-- ARGV  group
local position = redis.call('GET', KEYS[2])
if not position then return 0 end
redis.pcall('XGROUP', 'SETID', KEYS[1], ARGV[1], position)
redis.call('DEL', KEYS[2])
return 1
