-- Members enter, with nothing of what an earlier one of the same name left.
-- KEYS  cluster:lifetime_connections
-- ARGV  the ARGV of the fleet, then members
-- Returns how many.
local all = {}
for i = 6, #ARGV, DESCRIPTION do all[#all + 1] = read_member(i) end
for _, m in ipairs(all) do
  -- First what a server that is out of memory refuses.
  redis.call('ZADD', MEMBERS, 0, m.id)
  leave(m.id)
  m.status, m.is_available = 'available', true
  write(m)
  redis.call('HSET', LIFETIME, m.id, 0)
  publish(m.id)
  place(m)
  if m.concurrent > 0 then tell('places ' .. m.kind) end
end
return finish(#all)
