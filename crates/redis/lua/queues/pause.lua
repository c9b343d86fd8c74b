-- Stops a stream from giving out entries: its group's position moves to the end of time, so that plain reads,
-- blocked ones and those of foreign consumers all get nothing. The position is kept for `resume`.
-- KEYS  stream, paused, queues
-- ARGV  group, member of queues
expect(KEYS[3], 'set')
local r = reading(KEYS[1], KEYS[2], ARGV[1])
redis.call('SADD', KEYS[3], ARGV[2])
if r.paused and r.known then return 0 end
if not r.group then redis.call('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM') end
redis.call('SET', KEYS[2], r.at)
redis.call('XGROUP', 'SETID', KEYS[1], ARGV[1], PAUSED_AT)
return 1
