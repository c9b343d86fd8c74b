-- Ends claims on stream entries that leave nothing behind: the hot path of settling. An entry's id is its
-- fence: a rescue removes the entry and adds a new one, so a late settlement finds nothing to acknowledge.
-- KEYS  jobs, waiters, notices, errands, keyed, stream, cancelled
-- ARGV  channel, group, number of entries n, number of tracked ones m, then n entries (tracked first), then m chains
-- Returns 1 if all were held and nothing is owed, else for each entry 1 held or 0 lost; then the errands that are owed.
local h, stream, cancelled = home(), KEYS[6], KEYS[7]
local group, n, m = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local tied = m > 0 and redis.call('EXISTS', h.waiters, h.keyed) > 0
if tied then expect_home(h) end
local out = {}
if redis.call('XACK', stream, group, unpack(ARGV, 5, n + 4)) == n then
  redis.call('XDEL', stream, unpack(ARGV, 5, n + 4))
  if m > 0 then
    redis.call('HDEL', h.jobs, unpack(ARGV, n + 5))
    if redis.call('EXISTS', cancelled) == 1 then redis.call('HDEL', cancelled, unpack(ARGV, n + 5)) end
  end
  if not tied then return 1 end
  for i = 1, n do out[i] = 1 end
else
  for i = 1, n do
    out[i] = redis.call('XDEL', stream, ARGV[i + 4])
    if out[i] == 1 and i <= m then
      redis.call('HDEL', h.jobs, ARGV[n + 4 + i])
      redis.call('HDEL', cancelled, ARGV[n + 4 + i])
    end
  end
end
if tied then
  for i = 1, m do
    if out[i] == 1 then close(h, ARGV[n + 4 + i], '', 0) end
  end
end
return with_owed(out, h)
