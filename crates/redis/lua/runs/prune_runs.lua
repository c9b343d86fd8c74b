-- Removes runs that have ended with all they have: those whose time is over, a bounded number, and those that are named.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  channel, the ARGV of a world, then: limit, then runs
-- Returns how many were removed; then per workflow: its name, and how many of its ended runs are left.
local w = world(home(), 2)
local gone = redis.call('ZRANGEBYSCORE', ENDED, '-inf', whole(w.time), 'LIMIT', 0, tonumber(w.read()))
while w.has_more() do gone[#gone + 1] = w.read() end

-- Of a run that cannot be read nobody knows the type; it is in the index of one.
local function remove(id)
  local r = load(w, id)
  if r and is_running(r) then return 0 end
  local about, types = run_of(id), r and { r.state.workflow } or redis.call('SMEMBERS', WORKFLOWS)
  local was_there = redis.call('ZREM', ENDED, id)
  redis.call('ZREM', RUNS, id)
  for _, workflow in ipairs(types) do
    redis.call('ZREM', RUNS .. ':' .. workflow, id)
    redis.call('ZREM', ENDED .. ':' .. workflow, id)
    if redis.call('EXISTS', ENDED .. ':' .. workflow) == 0 then redis.call('SREM', WORKFLOWS, workflow) end
  end
  local key = r and r.state.key and PREFIX .. 'run-key:' .. r.state.workflow .. ':' .. r.state.key
  if key and redis.call('GET', key) == id then redis.call('DEL', key) end
  drop_alarms(about)
  redis.call('UNLINK', about.key, about.events, about.seen)
  return was_there
end

local out = { 0 }
for _, id in ipairs(gone) do out[1] = out[1] + remove(id) end
for _, workflow in ipairs(redis.call('SMEMBERS', WORKFLOWS)) do
  out[#out + 1] = workflow
  out[#out + 1] = redis.call('ZCARD', ENDED .. ':' .. workflow)
end
return out
