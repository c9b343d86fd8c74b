-- Pauses a stream: moves its group's position to the end of time, so that plain reads, blocked
-- reads and those of other programs return nothing. Saves the position for `resume`.
-- KEYS  stream, paused, queues
-- ARGV  group, member of queues
expect_type(KEYS[3], 'set')
local position = stream_position(KEYS[1], KEYS[2], ARGV[1])
redis.call('SADD', KEYS[3], ARGV[2])
if position.paused and position.known then return 0 end
if not position.group then redis.call('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM') end
redis.call('SET', KEYS[2], position.at)
redis.call('XGROUP', 'SETID', KEYS[1], ARGV[1], PAUSED_POSITION)
return 1
