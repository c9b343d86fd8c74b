-- Resumes a stream from where it was paused. The group's position shows whether it is paused: the
-- key with the saved position may have been deleted or overwritten.
-- KEYS  stream, paused
-- ARGV  group
local position = stream_position(KEYS[1], KEYS[2], ARGV[1])
if position.paused then redis.call('XGROUP', 'SETID', KEYS[1], ARGV[1], position.at) end
redis.call('DEL', KEYS[2])
return position.paused and 1 or 0
