-- Members say that they live, and all about themselves again. One that is not there is entered whole, with the sessions it
-- has, and given no new one for a while; so is one that has not beaten for too long, or not to this run of the server, because
-- leases that nobody could extend meanwhile, or that are not known any more, may be held.
-- KEYS  cluster:lifetime_connections
-- ARGV  the ARGV of the fleet, for how many ms one that is entered is given no session, then members
-- Returns for each: 1 if it is to drain, else 0; how many sessions it has; how many it has had.
local grace, all, out = tonumber(ARGV[6]), {}, {}
for i = 7, #ARGV, DESCRIPTION do all[#all + 1] = read_member(i) end

local function enter(m)
  redis.call('HSET', LIFETIME, m.id, whole(math.max(lifetime(m.id), active(m.id))))
  redis.call('ZREM', GRACE, m.id)
  if grace > 0 then redis.call('ZADD', GRACE, whole(TIME + grace), m.id) end
end

-- Whose time of grace is over need not wait for a lease to see that.
local function end_grace(m)
  local ends = redis.call('ZSCORE', GRACE, m.id)
  if ends and tonumber(ends) <= TIME then redis.call('ZREM', GRACE, m.id) end
end

for _, m in ipairs(all) do
  local before, is_known = load(m.id), place_of(m.id) and redis.call('TYPE', WORKER .. m.id).ok == 'hash'
  if before and not (before.is_fresh and before.is_sure) then is_known = false end
  write(m)
  if is_known then end_grace(m) else enter(m) end
  redis.call('HSETNX', LIFETIME, m.id, active(m.id))
  publish(m.id)
  if place(m) and is_awaited(m.kind) then tell('places ' .. m.kind) end
  out[#out + 1] = is_ordered(m.id) and 1 or 0
  out[#out + 1] = active(m.id)
  out[#out + 1] = whole(lifetime(m.id))
end
return finish(out)
