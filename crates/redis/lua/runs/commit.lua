-- Ends claims by which runs go on, each atomically and fenced by its lease: tasks, with what they did, jobs that runs are
-- told of, and those that are put back, of which runs are told if they are to be cancelled.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  channel, the ARGV of a world, mode ('settle' or 'rescue'), default lease in ms, then per settlement: kind of queue ('s'
--       or 'l'), queue, token (the entry, or what the lock holds; '0': never locked), job id, and 'deliver' with a delivery,
--       'requeue' with envelope, due and what stands before and after the number in what a run is told instead, or 'commit'
--       with: run, id of the commit, cursor, upto, entry, effects and 'goes_on', 'restarts' with an entry, for how many ms ids of deliveries are
--       remembered and how many however old, or 'ends' with a close
-- In mode 'rescue' only a lease that has run out is ended. For a run that cannot be read, or whose journal takes no entry,
-- nothing is written: the claim runs out, and what it did can be done when the run is sound again.
-- Returns 1 accepted or 0 lease lost, for each; then the errands that are owed.
local w = world(home(), 2)
local mode, unknown = w.read(), tonumber(w.read())

local function read_commit()
  local c = { run = w.read(), id = w.read(), cursor = tonumber(w.read()), upto = tonumber(w.read()), entry = w.read() }
  c.effects, c.how = read_effects(w, c.run), w.read()
  load(w, c.run)
  if c.how == 'restarts' then
    expect_pending(w, c.run)
    c.first, c.seen_for, c.most_seen = w.read(), tonumber(w.read()), tonumber(w.read())
  elseif c.how == 'ends' then
    c.close = read_close(w, c.run)
  end
  return c
end

-- All that is looked at between writes is checked here, before the first.
local function read_settlement()
  local s = { q = queue(w, w.read(), w.read()), token = w.read(), id = w.read(), op = w.read() }
  s.chain = chain_of(s.id)
  if mode == 'rescue' then expect_once(w, s.q.leases, 'hash') end
  if s.op == 'commit' then
    s.commit = read_commit()
  elseif s.op == 'requeue' then
    s.envelope, s.due = w.read(), w.read()
    s.delivery = removal(w, s.id, { w.read(), w.read() })
    if s.due ~= '' then expect_once(w, s.q.scheduled, 'zset') end
  else
    s.delivery = read_delivery(w)
  end
  return s
end

-- Whether the claim on an entry is held; in mode 'rescue', whether it has run out.
local function holds_entry(q, entry)
  local pending = lease(q.target, q.group, entry)
  if not pending or mode ~= 'rescue' then return pending ~= nil end
  local worker = string.gsub(pending[2], '%+held$', '')
  return pending[3] >= (tonumber(redis.call('HGET', q.leases, worker) or '') or unknown)
end

-- The same of a job taken from a list.
local function holds_lock(q, id, token)
  local held = redis.pcall('GET', q.target .. ':lock:' .. id)
  if mode ~= 'rescue' then return token == '0' or held == token end
  local trace = redis.call('HGET', q.running, id)
  return not held and trace and string.match(trace, '^%d+') == token
end

local function holds(s)
  if s.q.kind == 's' then return holds_entry(s.q, s.token) end
  return holds_lock(s.q, s.id, s.token)
end

-- Ends a claim that is held.
local function give_up(s)
  local q, place = s.q, 'l ' .. s.q.name
  if q.kind == 's' then
    redis.call('XACK', q.target, q.group, s.token)
    redis.call('XDEL', q.target, s.token)
    place = 's ' .. q.name .. ' ' .. s.token
  else
    redis.call('DEL', q.target .. ':lock:' .. s.id)
    redis.call('HDEL', q.running, s.id)
  end
  -- Whatever else has the id is not what was claimed.
  forget(w, q, s.chain, place)
end

-- Begins a new journal behind the old one, with the messages that were not consumed: copied a few at a time, and the old
-- one is cut off then. Its first entry, at this position, is there already.
local function restart(r, c, first)
  drop_alarms(w, r)
  forget_seen(w, r, c.seen_for, c.most_seen)
  each_entry(r, c.upto + 1, whole(first - 1), function(_, kind, data)
    if kind == 'message' then append(w, r, 'message', data) end
  end)
  redis.call('XTRIM', r.events, 'MINID', whole(first) .. '-0')
  r.state.cursor = first - 1
end

-- The first thing written is the entry: it may be refused.
local function commit(s)
  local c = s.commit
  local r = load(w, c.run)
  if r == false or r and r.state.pending or c.effects.lost then return 0 end
  if not r or not is_running(r) or r.state.cursor ~= c.cursor then
    give_up(s)
    if r and is_running(r) then
      change(w, r)
      r.wants_task = true
    end
    return 0
  end
  local again = c.how == 'restarts'
  if not append(w, r, again and 'answer' or 'commit', stamped(again and c.first or c.entry, w.time)) then return 0 end
  local position = r.state.length
  give_up(s)
  r.wants_task, r.state.last_commit = true, c.id
  take_effect(w, r, c.effects)
  if again then
    restart(r, c, position)
  else
    r.state.cursor, r.committed = c.upto, position
    if c.how == 'ends' then end_run(w, r, c.close) end
  end
  return 1
end

local function tell(s)
  if deliver(w, s.delivery) == 'damaged' then return 0 end
  give_up(s)
  return 1
end

-- A job that is to be cancelled is not put back: its run is told instead.
local function put_back(s)
  if redis.call('HEXISTS', s.q.cancelled, s.chain) == 1 then return tell(s) end
  give_up(s)
  put(s.q, s.chain, true, s.envelope, due_at(s.due, w.time), w.time)
  return 1
end

local carry_out = { commit = commit, deliver = tell, requeue = put_back }
local all, out = {}, {}
while w.has_more() do all[#all + 1] = read_settlement() end
for i, s in ipairs(all) do
  out[i] = holds(s) and carry_out[s.op](s) or 0
  if mode == 'rescue' and out[i] == 1 then w.h.ended[#w.h.ended + 1] = 'lost ' .. s.id end
end
finish(w)
publish_ends(w.h)
return with_owed(out, w.h)
