-- Finds queues of a shard that may have expired leases: among the given queues, and among one page
-- of all queues, so that a call costs the same however many there are. Skips damaged keys, so that
-- they do not prevent the rescue of other queues' jobs. Writes nothing.
-- KEYS  jobs, queues
-- ARGV  one map: cursor of the page ('0' at first), page_size (approximate), group, groups (of queues
--       with their own one), the given queues as members of `queues`, and lease: the one in ms that
--       counts in these for a consumer without one
-- Returns the time in ms, the next cursor, then the queues as members of `queues`.
local args = cmsgpack.unpack(ARGV[1])
local cursor, page_size = args.cursor, args.page_size
local out, shortest, seen = { int_text(now()), cursor }, {}, {}

local function is_late(stream, group, shortest_lease)
  local pending = redis.pcall('XPENDING', stream, group, '-', '+', 1)
  if pending.err or #pending == 0 then return false end
  local leases = redis.pcall('HVALS', stream .. ':leases')
  for _, lease_ms in ipairs(leases.err and {} or leases) do
    shortest_lease = math.min(shortest_lease or tonumber(lease_ms) or 0, tonumber(lease_ms) or 0)
  end
  if not shortest_lease then return false end
  local late = redis.pcall('XPENDING', stream, group, 'IDLE', int_text(shortest_lease), '-', '+', 1)
  return not late.err and #late > 0
end

-- How many locks of a list are checked here.
local MOST_LOCKS = 256

-- Whether a lock is missing. With more locks the answer is yes, and the caller checks them.
local function has_expired_lock(list)
  local takers = redis.pcall('ZRANGEBYSCORE', list .. ':takers', '-inf', out[1], 'LIMIT', 0, 1)
  if not takers.err and #takers > 0 then return true end
  -- HKEYS only: the values contain envelopes.
  local count = redis.pcall('HLEN', list .. ':running')
  if type(count) ~= 'number' or count == 0 then return false end
  if count > MOST_LOCKS then return true end
  for _, id in ipairs(redis.call('HKEYS', list .. ':running')) do
    if redis.call('EXISTS', list .. ':lock:' .. id) == 0 then return true end
  end
  return false
end

local function check_queue(member)
  if seen[member] then return end
  seen[member] = true
  local kind, name = string.sub(member, 1, 1), string.sub(member, 3)
  local key = target_key(kind, name)
  if kind == 's' and is_late(key, args.groups[name] or args.group, shortest[member]) or kind == 'l'
    and has_expired_lock(key) then
    out[#out + 1] = member
  end
end

for _, member in ipairs(args.queues) do shortest[member] = args.lease end
for _, member in ipairs(args.queues) do check_queue(member) end
-- A page of a set from which much was removed may be nearly empty.
for _ = 1, 4 do
  local page = redis.call('SSCAN', KEYS[2], cursor, 'COUNT', page_size)
  for _, member in ipairs(page[2]) do check_queue(member) end
  cursor, page_size = page[1], page_size - #page[2]
  if cursor == '0' or page_size <= 0 then break end
end
out[2] = cursor
return out
