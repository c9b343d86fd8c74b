-- Ends claims by which runs go on, each atomically and fenced by its lease: tasks, with what they did, and jobs that runs are
-- told of.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  channel, the ARGV of a world, mode ('settle' or 'rescue'), default lease in ms, then per settlement: kind of queue ('s'
--       or 'l'), queue, token (the entry, or what the lock holds; '0': never locked), job id, and 'deliver' with a delivery or
--       'commit' with: run, cursor, upto, entry, effects and 'goes_on', 'restarts' with an entry, or 'ends' with a close
-- In mode 'rescue' only a lease that has run out is ended.
-- Returns 1 accepted or 0 lease lost, for each; then the errands that are owed.
local w = world(home(), 2)
local mode, unknown = w.read(), tonumber(w.read())

local function read_commit()
  local c = { run = w.read(), cursor = tonumber(w.read()), upto = tonumber(w.read()), entry = w.read(),
    effects = read_effects(w), how = w.read() }
  load(w, c.run)
  if c.how == 'restarts' then c.first = w.read() elseif c.how == 'ends' then c.close = read_close(w) end
  return c
end

local function read_settlement()
  local s = { q = queue(w, w.read(), w.read()), token = w.read(), id = w.read(), op = w.read() }
  s.chain = chain_of(s.id)
  if s.op == 'commit' then s.commit = read_commit() else s.delivery = read_delivery(w) end
  return s
end

-- Whether the claim on an entry was held, and is given up now.
local function give_up_entry(q, entry)
  if mode == 'rescue' then
    local pending = lease(q.target, q.group, entry)
    local worker = pending and string.gsub(pending[2], '%+held$', '')
    if not pending or pending[3] < tonumber(redis.call('HGET', q.leases, worker) or unknown) then return false end
  end
  if redis.call('XACK', q.target, q.group, entry) == 0 then return false end
  redis.call('XDEL', q.target, entry)
  return true
end

-- The same of a job taken from a list.
local function give_up_lock(q, id, token)
  local lock = q.target .. ':lock:' .. id
  local held, trace = redis.call('GET', lock), redis.call('HGET', q.running, id)
  if mode == 'rescue' then
    if held or not trace or string.match(trace, '^%d+') ~= token then return false end
  elseif token ~= '0' and held ~= token then
    return false
  end
  redis.call('DEL', lock)
  redis.call('HDEL', q.running, id)
  return true
end

local function give_up(s)
  local q, place = s.q, 'l ' .. s.q.name
  if q.kind == 's' then
    if not give_up_entry(q, s.token) then return false end
    place = 's ' .. q.name .. ' ' .. s.token
  elseif not give_up_lock(q, s.id, s.token) then
    return false
  end
  -- Whatever else has the id is not what was claimed.
  forget(w, q, s.chain, place)
  return true
end

-- Begins a new journal behind the old one, with the messages that were not consumed.
local function restart(r, c)
  local kept = {}
  for _, event in ipairs(events(r, c.upto + 1, math.huge)) do
    if event[2] == 'message' then kept[#kept + 1] = event[3] end
  end
  drop_alarms(r)
  redis.call('DEL', r.events)
  r.state.cursor = r.state.length
  append(w, r, 'answer', c.first)
  for _, entry in ipairs(kept) do append(w, r, 'message', entry) end
end

local function commit(c)
  local r = load(w, c.run)
  if not r or not is_running(r) then return 0 end
  change(w, r)
  r.wants_task = true
  if r.state.cursor ~= c.cursor then return 0 end
  if c.how ~= 'restarts' then
    -- A journal that takes no entry would take none from the next task either.
    r.wants_task = append(w, r, 'commit', c.entry)
    if not r.wants_task then return 0 end
    r.state.cursor, r.committed = c.upto, r.state.length
  end
  take_effect(r, c.effects)
  if c.how == 'restarts' then restart(r, c) elseif c.how == 'ends' then end_run(w, r, c.close) end
  return 1
end

local all, out = {}, {}
while w.has_more() do all[#all + 1] = read_settlement() end
for i, s in ipairs(all) do
  out[i] = give_up(s) and 1 or 0
  if out[i] == 1 then
    if s.commit then out[i] = commit(s.commit) else deliver(w, s.delivery) end
  end
end
finish(w)
return with_owed(out, w.h)
