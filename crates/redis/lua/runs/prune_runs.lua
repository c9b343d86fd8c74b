-- Removes runs that have ended with all they have: those whose time is over, a bounded number, and those that are named.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  channel, the ARGV of a world, then: limit, then runs
-- Returns how many were removed, and what time it is; then per workflow: its name, and how many of its ended runs are left.
local w = world(home(), 2)
expect(ENDED, 'zset')
expect(RUNS, 'zset')
expect(WORKFLOWS, 'set')
local gone = redis.call('ZRANGEBYSCORE', ENDED, '-inf', whole(w.time), 'LIMIT', 0, tonumber(w.read()))
while w.has_more() do gone[#gone + 1] = w.read() end
local out = { 0, w.time }
for _, id in ipairs(gone) do out[1] = out[1] + remove(w, id) end
for _, workflow in ipairs(redis.call('SMEMBERS', WORKFLOWS)) do
  local left = redis.pcall('ZCARD', ENDED .. ':' .. workflow)
  out[#out + 1] = workflow
  out[#out + 1] = type(left) == 'number' and left or 0
end
return out
