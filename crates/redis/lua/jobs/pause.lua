-- Stops a stream from giving out entries: its group's position moves to the end of time, so that plain reads,
-- blocked ones and those of foreign consumers all get nothing. The position is kept for `resume`.
-- KEYS  stream, paused
-- ARGV  group
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
if redis.call('EXISTS', KEYS[1]) == 0 or #redis.call('XINFO', 'GROUPS', KEYS[1]) == 0 then
  redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
end
local position
for _, info in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local found = {}
  for i = 1, #info, 2 do found[info[i]] = info[i + 1] end
  if found['name'] == ARGV[1] then position = found['last-delivered-id'] end
end
if not position then
  redis.call('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0')
  position = '0-0'
end
redis.call('SET', KEYS[2], position)
redis.call('XGROUP', 'SETID', KEYS[1], ARGV[1], '18446744073709551615-18446744073709551615')
return 1
