-- Finds the queues of a shard in which leases may have run out, all in one look. A key that holds something else than it
-- should is passed over, so that it does not keep the jobs of other queues from being rescued. Writes nothing.
-- KEYS  jobs, queues
-- ARGV  the consumer group; then, per queue with a group of its own: queue, group; then ''; then the queues in which a
--       consumer that has told no lease has one of this length: length in ms, queues
-- Returns the time in ms, then the queues as `queues` has them.
local out, groups, shortest, i = { whole(now()) }, {}, {}, 2
while ARGV[i] ~= '' do
  groups[ARGV[i]] = ARGV[i + 1]
  i = i + 2
end
for k = i + 2, #ARGV do shortest[ARGV[k]] = tonumber(ARGV[i + 1]) end

local function is_late(stream, group, least)
  local pending = redis.pcall('XPENDING', stream, group, '-', '+', 1)
  if pending.err or #pending == 0 then return false end
  local leases = redis.pcall('HVALS', stream .. ':leases')
  for _, lease in ipairs(leases.err and {} or leases) do
    least = math.min(least or tonumber(lease) or 0, tonumber(lease) or 0)
  end
  if not least then return false end
  local late = redis.pcall('XPENDING', stream, group, 'IDLE', whole(least), '-', '+', 1)
  return not late.err and #late > 0
end

-- Whether a lock is missing. Of a large hash only a part is looked at here; whoever is told of the queue looks at the rest.
local function is_given_up(list)
  local takers = redis.pcall('ZRANGEBYSCORE', list .. ':takers', '-inf', out[1], 'LIMIT', 0, 1)
  if not takers.err and #takers > 0 then return true end
  local page = redis.pcall('HSCAN', list .. ':running', '0', 'COUNT', 256)
  if page.err then return false end
  for n = 1, #page[2], 2 do
    if redis.call('EXISTS', list .. ':lock:' .. page[2][n]) == 0 then return true end
  end
  return page[1] ~= '0'
end

for _, member in ipairs(redis.call('SMEMBERS', KEYS[2])) do
  local kind, name = string.sub(member, 1, 1), string.sub(member, 3)
  local key = target(kind, name)
  if kind == 's' and is_late(key, groups[name] or ARGV[1], shortest[name]) or kind == 'l' and is_given_up(key) then
    out[#out + 1] = member
  end
end
return out
