-- Behind `position.lua`, for scripts about runs. They are given as their first
-- KEYS  jobs, waiters, notices, errands, keyed: what a shard has for all its queues
-- ARGV  channel; later, behind what each says itself, the ARGV of a world: how many news a task has at most, and to how many
--       bytes, letters of alarms, the usual group, number of queues with another, then per such queue: name, group
-- Which keys else they touch follows from what the runs hold and what the index says, so scripts make those themselves, as
-- `src/keys.rs` does. All of them are in the shard.
-- What a commit does beyond a bounded number of effects is *pending*: staged before it, its own by the commit, and carried out
-- after it, in order, by the errand 'e RUN'. Until then the run gets no task, so nothing that it does can overtake it.
-- A run is loaded once per script. At the end each that changed is saved, and gets its task with all the news there are.

local PREFIX = string.sub(KEYS[1], 1, -5)
local RUNS, ENDED, WORKFLOWS = PREFIX .. 'runs', PREFIX .. 'runs-ended', PREFIX .. 'workflows'
local TIMERS = PREFIX .. 'timers'

-- How many alarms of a run one script drops; the rest is pending.
local MOST_ALARMS = 256

-- What a script works on, with ARGV read one after the other from behind the world's own on.
local function world(h, i)
  local w = { h = h, time = now(), most = tonumber(ARGV[i]), bytes = tonumber(ARGV[i + 1]), letters = ARGV[i + 2],
    group = ARGV[i + 3], groups = {}, queues = {}, runs = {}, changed = {}, sooner = {}, expected = {} }
  local at = i + 4 + 2 * tonumber(ARGV[i + 4])
  for n = i + 5, at, 2 do w.groups[ARGV[n]] = ARGV[n + 1] end
  function w.read()
    at = at + 1
    return ARGV[at]
  end
  function w.has_more() return at < #ARGV end
  expect(h.jobs, 'hash')
  expect(TIMERS, 'zset')
  -- Nobody waits for any chain, and none has a key: ends of jobs concern nobody else.
  w.tied = redis.call('EXISTS', h.waiters, h.keyed) > 0
  if w.tied then expect_home(h) end
  return w
end

-- Fails if a key holds something else than it should; asked once per key.
local function expect_once(w, key, kind)
  if not w.expected[key] then expect(key, kind) end
  w.expected[key] = true
end

-- What a route may not be called: keys of the workflow's own queue end like this.
local RESERVED = { scheduled = true, dlq = true, paused = true, blocked = true, cancelled = true, dropped = true,
  leases = true, running = true, untracked = true, lock = true, taken = true, takers = true, purged = true }

local function target(kind, name)
  if kind == 'l' then return PREFIX .. 'queue:' .. name end
  local workflow, route = string.match(name, '^workflow/([^/]+)$'), nil
  if workflow then return PREFIX .. 'workflow:' .. workflow end
  workflow, route = string.match(name, '^workflow/([^/]+)/([^/]+)$')
  if workflow and not RESERVED[route] then return PREFIX .. 'workflow:' .. workflow .. ':' .. route end
  return PREFIX .. 'stream:' .. name
end

-- The keys of a queue; `kind` is 's' or 'l'.
local function queue(w, kind, name)
  local known = w.queues[kind .. name]
  if known then return known end
  local q = { kind = kind, name = name, target = target(kind, name), jobs = w.h.jobs,
    group = w.groups[name] or w.group }
  for _, part in ipairs({ 'scheduled', 'dlq', 'blocked', 'cancelled', 'running', 'dropped', 'leases' }) do
    q[part] = q.target .. ':' .. part
  end
  expect(q.target, kind == 's' and 'stream' or 'list')
  q.has_cancelled = expect(q.cancelled, 'hash')
  if kind == 'l' then
    expect(q.running, 'hash')
    expect(q.dropped, 'hash')
  end
  w.queues[kind .. name] = q
  return q
end

-- Forgets a job that is not where it was any more; `where` is nil, or what the index must say if it is to be this job.
local function forget(w, q, chain, where)
  if where and redis.call('HGET', w.h.jobs, chain) ~= where then return end
  redis.call('HDEL', w.h.jobs, chain)
  if q.has_cancelled ~= false then redis.call('HDEL', q.cancelled, chain) end
  if w.tied then close(w.h, chain, '', 0) end
end

-- ---- a run and its journal

local function run_of(id, state)
  return { id = id, task = id .. '!task', state = state, key = PREFIX .. 'instances-' .. id, events = PREFIX .. 'events-' .. id,
    seen = PREFIX .. 'seen-' .. id, alarms = PREFIX .. 'timers-' .. id, pending = PREFIX .. 'effects:' .. id }
end

-- Whether this is a number of entries, or of ms: one that every command takes.
local function is_whole(number)
  return type(number) == 'number' and number >= 0 and number <= 9007199254740991 and number % 1 == 0
end

-- Whether the state can be written as JSON again: that has no number that is infinite.
local function can_be_saved(value)
  if type(value) == 'number' then return value - value == 0 end
  if type(value) == 'table' then
    for _, part in pairs(value) do
      if not can_be_saved(part) then return false end
    end
  end
  return true
end

-- What a run's key says of it; nil if there is none, false if that is no run. Anybody may have written it.
local function state_of(id)
  local text = redis.pcall('GET', PREFIX .. 'instances-' .. id)
  if not text then return nil end
  local sound, state = pcall(cjson.decode, text)
  if not sound or type(state) ~= 'table' or not is_whole(state.cursor) or not is_whole(state.length)
    or type(state.status) ~= 'string' or type(state.queue) ~= 'string' or type(state.workflow) ~= 'string'
    or type(state.head) ~= 'string' or not is_whole(state.keep_ms) or type(state.attributes) ~= 'table'
    or not can_be_saved(state) then
    return false
  end
  if type(state.opening) ~= 'string' then state.opening = nil end
  return state
end

-- A run; nil if it is not there, false if what is there is none. Fails if its queue cannot take its task.
local function load(w, id)
  if w.runs[id] then return w.runs[id] end
  local state = state_of(id)
  if not state then return state end
  queue(w, 's', state.queue)
  w.runs[id] = run_of(id, state)
  return w.runs[id]
end

local function is_running(r) return r.state.status == 'running' end

-- Whether it has ended and is kept no longer: from then on it is as if it had never been.
local function is_over(w, r)
  return not is_running(r) and not r.state.pending and (tonumber(r.state.closed_at) or 0) + r.state.keep_ms <= w.time
end

-- The run is saved at the end.
local function change(w, r)
  if not r.changed then w.changed[#w.changed + 1] = r end
  r.changed = true
end

-- Appends an entry; says whether that was possible: it is not if others have written into the stream, or it is none.
local function append(w, r, kind, entry)
  local position = r.state.length + 1
  local added = redis.pcall('XADD', r.events, whole(position) .. '-0', 'data', entry, 'kind', kind)
  if type(added) == 'table' then
    if string.find(added.err, 'equal or smaller', 1, true) or string.find(added.err, 'WRONGTYPE', 1, true) then
      return false
    end
    error(added.err)
  end
  r.state.length = position
  change(w, r)
  return true
end

local function field(entry, name)
  for i = 1, #entry[2], 2 do
    if entry[2][i] == name then return entry[2][i + 1] end
  end
end

-- How many entries are read at a time: each may be large, and what is read has to fit into the script's memory.
local STEP = 16

-- Gives entries between two positions to `take`: position, kind, data; until there are no more, or it wants none.
local function each_entry(r, from, to, take)
  repeat
    local found = redis.pcall('XRANGE', r.events, whole(from), to, 'COUNT', STEP)
    for _, entry in ipairs(found) do
      local position = tonumber(string.match(entry[1], '^%d+'))
      if take(position, field(entry, 'kind'), field(entry, 'data') or 'null') == false then return end
      from = position + 1
    end
  until #found < STEP
end

-- The news of a run: a list of { position, data }, up to the one by which they come to as many bytes as a task may have.
local function news_of(w, r)
  local out, bytes = {}, w.bytes
  each_entry(r, r.state.cursor + 1, '+', function(position, kind, data)
    if kind ~= 'commit' then
      out[#out + 1] = { position, data }
      bytes = bytes - #data
    end
    return #out < w.most and bytes > 0
  end)
  return out
end

-- ---- tasks

-- Whether the run's task is there. An entry may have been deleted by another program, and then the index is wrong.
local function has_task(w, r)
  local at = redis.call('HGET', w.h.jobs, r.task)
  local name, entry = string.match(at or '', '^s ([^ ]+) (.+)$')
  if not name then return at ~= false end
  -- Neither what the index says nor what is there need be sound.
  return #redis.pcall('XRANGE', target('s', name), entry, entry) > 0
end

-- The entry as a task has it. What is no JSON must not keep the task from being an envelope: whoever has it sees that the
-- entry is none. Half a character and a great depth are beyond this reader, but are JSON.
local function spliced(entry)
  local sound, why = pcall(cjson.decode, entry)
  if sound or string.find(why, 'unicode escape', 1, true) or string.find(why, 'nested', 1, true) then return entry end
  return 'null'
end

-- What a task says of the commit before it; the state is JSON that anybody may have written.
local function last_commit(r)
  local id = r.state.last_commit
  if type(id) ~= 'string' or not string.match(id, '^[1-9]%d*$') then return '' end
  return ',"lastCommit":' .. id
end

-- Makes the run's task, if there are news or this is the first.
local function make_task(w, r)
  if r.state.pending then
    r.state.opening = r.opening or r.state.opening
    return
  end
  local opening = r.opening or r.state.opening
  -- Nothing came between what the last commit consumed and its own entry.
  if not opening and r.committed == r.state.length and r.committed == r.state.cursor + 1 then return end
  if has_task(w, r) then return end
  local news = {}
  for i, event in ipairs(news_of(w, r)) do
    news[i] = '{"position":' .. whole(event[1]) .. ',"entry":' .. spliced(event[2]) .. '}'
  end
  if #news == 0 and not opening then return end
  local q = queue(w, 's', r.state.queue)
  q.filled = true
  r.state.opening = nil
  put(q, r.task, true, r.state.head .. (opening or '') .. ',"cursor":' .. whole(r.state.cursor)
    .. last_commit(r) .. ',"news":[' .. table.concat(news, ',') .. ']}', 0, w.time)
end

-- The end of every script: tasks are made, runs saved, and whoever is concerned is told.
local function finish(w)
  for _, r in ipairs(w.changed) do
    if r.wants_task and is_running(r) then make_task(w, r) end
    redis.call('SET', r.key, cjson.encode(r.state))
  end
  for _, q in pairs(w.queues) do
    -- Where queues are found by name, and no reason to fail here.
    if q.filled then redis.pcall('SADD', PREFIX .. 'queues', q.kind .. ' ' .. q.name) end
    if w.sooner[q.name] and q.kind == 's' then q.sooner = true end
    announce(q, w.h.channel)
  end
end

-- ---- alarms: in `timers` as 'RUN SEQ LETTER', and the run's own as 'SEQ LETTER'

local function set_alarm(w, r, seq, due, letter)
  -- The run's own come from `timers`, so what is wrong with them is no reason to fail.
  redis.pcall('ZADD', r.alarms, due, seq .. ' ' .. letter)
  if not w.first then w.first = tonumber(redis.call('ZRANGE', TIMERS, 0, 0, 'WITHSCORES')[2] or 'inf') end
  redis.call('ZADD', TIMERS, due, r.id .. ' ' .. seq .. ' ' .. letter)
  if tonumber(due) < w.first then w.first, w.sooner[r.state.queue] = tonumber(due), true end
end

local function drop_alarm(w, r, seq)
  local own, all = {}, {}
  for letter in string.gmatch(w.letters, '.') do
    own[#own + 1] = seq .. ' ' .. letter
    all[#all + 1] = r.id .. ' ' .. seq .. ' ' .. letter
  end
  if redis.pcall('ZREM', r.alarms, unpack(own)) ~= 0 then redis.call('ZREM', TIMERS, unpack(all)) end
end

local function drop_few_alarms(r)
  for _, alarm in ipairs(redis.pcall('ZRANGE', r.alarms, 0, -1)) do redis.call('ZREM', TIMERS, r.id .. ' ' .. alarm) end
  redis.call('DEL', r.alarms)
end

-- Leaves an effect to be carried out behind all that is pending. Its keys have been looked at: see `expect_pending`.
local function postpone(w, r, effect)
  redis.call('RPUSH', r.pending, cmsgpack.pack(effect))
  if not r.state.pending then owe(w.h, 'e ' .. r.id) end
  r.state.pending = true
  change(w, r)
end

local function expect_pending(w, id)
  expect_once(w, w.h.errands, 'zset')
  expect_once(w, PREFIX .. 'effects:' .. id, 'list')
end

-- Drops all alarms of a run. Very many are dropped later; those that come due meanwhile are passed over.
local function drop_alarms(w, r)
  local count = redis.pcall('ZCARD', r.alarms)
  if not r.state.pending and (type(count) ~= 'number' or count <= MOST_ALARMS) then return drop_few_alarms(r) end
  r.state.dropping = true
  postpone(w, r, { 'alarms' })
end

-- ---- deliveries

-- ARGV: run, kind, entry, delivery id ('' if none), seq ('' if none)
local function read_delivery(w)
  local d = { run = w.read(), kind = w.read(), entry = w.read(), id = w.read(), seq = w.read() }
  load(w, d.run)
  return d
end

-- Returns 'yes', 'again', 'missing', 'damaged' with nothing written, or how the run has ended.
local function deliver(w, d)
  local r = load(w, d.run)
  if not r then return r == nil and 'missing' or 'damaged' end
  if d.id ~= '' then
    local seen = redis.pcall('ZSCORE', r.seen, d.id)
    if seen then return type(seen) == 'string' and 'again' or 'damaged' end
  end
  if not is_running(r) then return r.state.status end
  -- First what a server that is out of memory refuses, so that nothing has changed if it does.
  if not append(w, r, d.kind, stamped(d.entry, w.time)) then return 'damaged' end
  if d.id ~= '' then redis.call('ZADD', r.seen, whole(w.time), d.id) end
  if d.seq ~= '' then drop_alarm(w, r, d.seq) end
  r.wants_task = true
  return 'yes'
end

-- Forgets ids of deliveries that are older than `age`, but for the latest `most`.
local function forget_seen(w, r, age, most)
  local all = redis.pcall('ZCARD', r.seen)
  if type(all) ~= 'number' or all <= most then return end
  local old = redis.call('ZCOUNT', r.seen, '-inf', '(' .. whole(w.time - age))
  if old > 0 then redis.call('ZREMRANGEBYRANK', r.seen, 0, math.min(old, all - most) - 1) end
end

-- ---- the jobs of a run

-- What belongs to a run has its id and a part: an activity a number, its task and its errands a word.
local function part_of(id) return string.match(id, '^(.+)!([a-z0-9]+)$') end

-- Whether a run goes on by the job, so that nobody may take it away.
local function carries_a_run(id)
  local run, part = part_of(id)
  return run and not string.match(part, '^%d+$')
end

-- What a run is told of an activity that was taken away; nil if it is none. ARGV: what stands before and after the number in
-- what it says. Asked before the first write, because the run is loaded.
local function removal(w, id, says)
  local run, seq = part_of(id)
  if not run or not string.match(seq, '^%d+$') then return nil end
  load(w, run)
  return { run = run, kind = 'answer', id = '', seq = seq,
    entry = '{"at":' .. whole(w.time) .. ',"event":' .. says[1] .. seq .. says[2] .. '}' }
end

-- Where a job is: its queue, with what `take` needs to know, the letter and the reference of the index.
local function where(w, id)
  local chain = chain_of(id)
  local letter, name, reference = string.match(redis.call('HGET', w.h.jobs, chain) or '', '^(%a) ([^ ]+) ?(.*)$')
  if not letter then return nil end
  local kind = (letter == 'l' or letter == 'L' or letter == 'D') and 'l' or 's'
  local q = setmetatable({ id = id, chain = chain }, { __index = queue(w, kind, name) })
  q.lock = q.target .. ':lock:' .. id
  if letter == 'b' then q.waits = PREFIX .. 'waits:' .. string.match(reference, '[^ ]*$') end
  expect_place(q, w.h, letter)
  return q, letter, reference
end

-- The id of the job that a chain is at; in a stream its envelope has it.
local function current(q, letter, reference)
  if letter ~= 's' then return q.id end
  local found = redis.call('XRANGE', q.target, reference, reference)[1]
  return found and id_in(field(found, 'data') or '') or q.id
end

local function cancel_job(w, id)
  local q, letter, reference = where(w, id)
  if not q or letter == 'd' or letter == 'D' then return end
  if letter == 's' and lease(q.target, q.group, reference) or letter == 'l' and redis.call('EXISTS', q.lock) == 1 then
    redis.call('HSET', q.cancelled, q.chain, 1)
    queue(w, q.kind, q.name).has_cancelled = true
    notify(w.h.channel, 'cancel ' .. current(q, letter, reference))
  elseif take(q, w.h, letter, reference) then
    forget(w, q, q.chain)
  end
end

-- ---- effects

-- ARGV: number of effects, then per effect a word and
--   job: kind ('s' or 'l'), queue, id, due, envelope        cancel: id         alarm: seq, due, letter
--   record: chain, record, how long it is kept in ms        drop: seq          attributes: number, then per one: name, value
--   alarms: drop all
-- or 'staged', the mark under which they were staged, and their number.
local READ = {
  job = function(w)
    local e = { q = queue(w, w.read(), w.read()), id = w.read(), due = w.read(), envelope = w.read() }
    if e.due ~= '' then expect_once(w, e.q.scheduled, 'zset') end
    function e.act()
      local chain = chain_of(e.id)
      if redis.call('HEXISTS', w.h.jobs, chain) == 1 or redis.call('EXISTS', PREFIX .. 'job:' .. chain) == 1 then return end
      put(e.q, chain, true, e.envelope, due_at(e.due, w.time), w.time)
      e.q.filled = true
    end
    return e
  end,
  cancel = function(w)
    local id = w.read()
    -- Looks at the keys that it is going to change.
    where(w, id)
    return { act = function() cancel_job(w, id) end }
  end,
  alarm = function(w)
    local seq, due, letter = w.read(), w.read(), w.read()
    expect_once(w, TIMERS, 'zset')
    return { act = function(r) set_alarm(w, r, seq, whole(due_at(due, w.time)), letter) end }
  end,
  drop = function(w)
    local seq = w.read()
    return { act = function(r) drop_alarm(w, r, seq) end }
  end,
  record = function(w)
    local chain, record, keep = w.read(), w.read(), w.read()
    return { act = function()
      redis.call('SET', PREFIX .. 'job:' .. chain, record, 'PX', keep)
      notify(w.h.channel, 'finished ' .. chain)
    end }
  end,
  attributes = function(w)
    local new = {}
    for _ = 1, tonumber(w.read()) do
      local name = w.read()
      new[name] = w.read()
    end
    return { act = function(r)
      for name, value in pairs(new) do r.state.attributes[name] = value end
    end }
  end,
  -- Returns 'more' if there are more.
  alarms = function()
    return { act = function(r)
      local some = redis.pcall('ZRANGE', r.alarms, 0, MOST_ALARMS - 1)
      for _, alarm in ipairs(some) do
        redis.call('ZREM', TIMERS, r.id .. ' ' .. alarm)
        redis.call('ZREM', r.alarms, alarm)
      end
      if #some == MOST_ALARMS then return 'more' end
      redis.call('DEL', r.alarms)
    end }
  end,
}

local function read_effects(w, id)
  local effects, count = {}, w.read()
  if count == 'staged' then
    expect_pending(w, id)
    effects.staged = PREFIX .. 'staged:' .. w.read()
    expect(effects.staged, 'list')
    -- A server that lost some of them may have been given the rest since.
    effects.lost = redis.call('LLEN', effects.staged) ~= tonumber(w.read())
    return effects
  end
  for i = 1, tonumber(count) do effects[i] = READ[w.read()](w) end
  return effects
end

local function take_effect(w, r, effects)
  if effects.staged then
    redis.call('RENAME', effects.staged, r.pending)
    redis.call('PERSIST', r.pending)
    r.state.pending = true
    owe(w.h, 'e ' .. r.id)
    change(w, r)
  end
  for _, effect in ipairs(effects) do effect.act(r) end
end

-- ---- ends

-- ARGV: status, output ('' if none), error ('' if none, else '=' before it), '1' and a delivery if another run is told, or '0'
local function read_close(w, id)
  expect_pending(w, id)
  local r = load(w, id)
  if r then expect_once(w, ENDED .. ':' .. r.state.workflow, 'zset') end
  local c = { status = w.read(), output = w.read(), error = w.read() }
  if w.read() == '1' then c.told = read_delivery(w) end
  expect_once(w, ENDED, 'zset')
  expect_once(w, WORKFLOWS, 'set')
  return c
end

local function end_run(w, r, c)
  local s = r.state
  s.status, s.closed_at = c.status, w.time
  if c.output ~= '' then s.output = c.output end
  if c.error ~= '' then s.error = string.sub(c.error, 2) end
  drop_alarms(w, r)
  redis.call('ZADD', ENDED, whole(w.time + s.keep_ms), r.id)
  redis.call('ZADD', ENDED .. ':' .. s.workflow, whole(w.time), r.id)
  redis.call('SADD', WORKFLOWS, s.workflow)
  notify(w.h.channel, 'finished ' .. r.task)
  change(w, r)
  if c.told then deliver(w, c.told) end
end

-- Removes a run that has ended with all it has. Of one that cannot be read nobody knows the type; it is in the index of one.
-- Returns how many that were.
local function remove(w, id)
  local state = state_of(id)
  local r = state and run_of(id, state)
  if r and (is_running(r) or state.pending) then return 0 end
  w.runs[id] = nil
  local about, types = run_of(id), r and { r.state.workflow } or redis.call('SMEMBERS', WORKFLOWS)
  local was_there = redis.call('ZREM', ENDED, id)
  redis.call('ZREM', RUNS, id)
  for _, workflow in ipairs(types) do
    redis.pcall('ZREM', RUNS .. ':' .. workflow, id)
    redis.pcall('ZREM', ENDED .. ':' .. workflow, id)
    if redis.call('EXISTS', ENDED .. ':' .. workflow) == 0 then redis.call('SREM', WORKFLOWS, workflow) end
  end
  local key = r and type(state.key) == 'string' and PREFIX .. 'run-key:' .. state.workflow .. ':' .. state.key
  if key and redis.pcall('GET', key) == id then redis.call('DEL', key) end
  drop_few_alarms(about)
  redis.call('UNLINK', about.key, about.events, about.seen, about.pending)
  return was_there
end
