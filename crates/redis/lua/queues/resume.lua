-- Lets a stream give out entries again, from where it was paused. Whether it is paused says its group's position: the key
-- that remembers the position may have been deleted or overwritten.
-- KEYS  stream, paused
-- ARGV  group
local r = reading(KEYS[1], KEYS[2], ARGV[1])
if r.paused then redis.call('XGROUP', 'SETID', KEYS[1], ARGV[1], r.at) end
redis.call('DEL', KEYS[2])
return r.paused and 1 or 0
