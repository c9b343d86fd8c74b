-- Finds queues of a shard in which leases may have run out: among those that are named, and among a part of all there are, so
-- that one look costs about the same however many there are. A key that holds something else than it should is passed over,
-- so that it does not keep the jobs of other queues from being rescued. Writes nothing.
-- KEYS  jobs, queues
-- ARGV  where the part of all begins ('0' at first), how many queues it has, about; the consumer group; then, per queue with a
--       group of its own: queue, group; then ''; then the queues that are named, in which a consumer that has told no lease
--       has one of this length: length in ms, queues as `queues` has them
-- Returns the time in ms, where the next part begins, then the queues as `queues` has them.
local cursor, most, group = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local out, groups, shortest, seen, i = { whole(now()) }, {}, {}, {}, 4
while ARGV[i] ~= '' do
  groups[ARGV[i]] = ARGV[i + 1]
  i = i + 2
end

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

-- How many locks of a list are looked at here.
local MOST_LOCKS = 256

-- Whether a lock is missing. Of many it is not known; whoever is told of the queue looks at them.
local function is_given_up(list)
  local takers = redis.pcall('ZRANGEBYSCORE', list .. ':takers', '-inf', out[1], 'LIMIT', 0, 1)
  if not takers.err and #takers > 0 then return true end
  -- Names alone: what is kept with them are envelopes.
  local count = redis.pcall('HLEN', list .. ':running')
  if type(count) ~= 'number' or count == 0 then return false end
  if count > MOST_LOCKS then return true end
  for _, id in ipairs(redis.call('HKEYS', list .. ':running')) do
    if redis.call('EXISTS', list .. ':lock:' .. id) == 0 then return true end
  end
  return false
end

local function look(member)
  if seen[member] then return end
  seen[member] = true
  local kind, name = string.sub(member, 1, 1), string.sub(member, 3)
  local key = target(kind, name)
  if kind == 's' and is_late(key, groups[name] or group, shortest[member]) or kind == 'l' and is_given_up(key) then
    out[#out + 1] = member
  end
end

for k = i + 2, #ARGV do shortest[ARGV[k]] = tonumber(ARGV[i + 1]) end
out[2] = cursor
for k = i + 2, #ARGV do look(ARGV[k]) end
-- A page of a set from which much was removed may be nearly empty.
for _ = 1, 4 do
  local page = redis.call('SSCAN', KEYS[2], cursor, 'COUNT', most)
  for _, member in ipairs(page[2]) do look(member) end
  cursor, most = page[1], most - #page[2]
  if cursor == '0' or most <= 0 then break end
end
out[2] = cursor
return out
