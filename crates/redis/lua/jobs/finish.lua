-- Ends claims on stream entries that leave nothing behind: the hot path of settling. An entry's id is its
-- fence: a rescue removes the entry and adds a new one, so a late settlement finds nothing to acknowledge.
-- KEYS  stream, jobs, cancelled
-- ARGV  group, number of entries n, number of tracked ones m, then n entries (tracked first), then m job ids
-- Returns 1 if all were held, else for each entry 1 held or 0 lost.
local group, n, m = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local all = redis.call('XACK', KEYS[1], group, unpack(ARGV, 4, n + 3)) == n
local out = {}
if all then
  redis.call('XDEL', KEYS[1], unpack(ARGV, 4, n + 3))
  if m > 0 then
    redis.call('HDEL', KEYS[2], unpack(ARGV, n + 4))
    if redis.call('EXISTS', KEYS[3]) == 1 then redis.call('HDEL', KEYS[3], unpack(ARGV, n + 4)) end
  end
  return 1
end
for i = 1, n do
  out[i] = redis.call('XDEL', KEYS[1], ARGV[i + 3])
  if out[i] == 1 and i <= m then
    redis.call('HDEL', KEYS[2], ARGV[n + 3 + i])
    redis.call('HDEL', KEYS[3], ARGV[n + 3 + i])
  end
end
return out
