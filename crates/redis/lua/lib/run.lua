-- For scripts about runs; loaded after `stream_position.lua`. Such scripts begin with
-- KEYS  jobs, waiters, notices, errands, keyed: the shared keys of a shard
-- ARGV  one map with the channel, and the context of runs: max_events and max_bytes of a task, the
--       letters of timers, the default group, and the groups of queues with another one
-- The other keys depend on the runs and on the index, so scripts build them as `keys.rs` does. All
-- of them are in the shard.
-- Effects of a commit beyond a bounded number are *pending*: staged before it, owned by the run
-- since the commit, and applied in order after it, by the outbox entry 'e RUN'. Until then the run
-- gets no task, so none of its later actions can overtake them.
-- A run is loaded once per script. At the end each changed run is saved, and gets a task with all
-- new events.

local PREFIX = string.sub(KEYS[1], 1, -5)
local RUNS, ENDED, WORKFLOWS = PREFIX .. 'runs', PREFIX .. 'runs-ended', PREFIX .. 'workflows'
local TIMERS = PREFIX .. 'timers'

-- How many timers of a run one script drops; the rest is pending.
local MAX_TIMERS = 256

-- Returns the context of a script.
local function run_context(shard, settings)
  local ctx = { shard = shard, time = now(), max_events = settings.max_events,
    max_bytes = settings.max_bytes, letters = settings.letters, group = settings.group,
    groups = settings.groups, queues = {}, runs = {}, changed = {}, sooner = {} }
  expect_type(shard.jobs, 'hash')
  -- No job waits for a chain and none has a key, so the end of a job concerns no other.
  ctx.tied = redis.call('EXISTS', shard.waiters, shard.keyed) > 0
  if ctx.tied then expect_shard(shard) end
  return ctx
end

-- `RESERVED` has the names that a route must not have: suffixes of the keys of the workflow's own
-- queue. `script.rs` writes it before the libraries, from the list in `keys.rs`.
local function target_key(kind, name)
  if kind == 'l' then return PREFIX .. 'queue:' .. name end
  local workflow, route = string.match(name, '^workflow/([^/]+)$'), nil
  if workflow then return PREFIX .. 'workflow:' .. workflow end
  workflow, route = string.match(name, '^workflow/([^/]+)/([^/]+)$')
  if workflow and not RESERVED[route] then return PREFIX .. 'workflow:' .. workflow .. ':' .. route end
  return PREFIX .. 'stream:' .. name
end

-- Returns the keys of a queue; `kind` is 's' or 'l'.
local function queue_keys(ctx, kind, name)
  local known = ctx.queues[kind .. name]
  if known then return known end
  local queue = { kind = kind, name = name, target = target_key(kind, name), jobs = ctx.shard.jobs,
    group = ctx.groups[name] or ctx.group }
  for _, part in ipairs({ 'scheduled', 'dlq', 'blocked', 'cancelled', 'running', 'dropped', 'leases' }) do
    queue[part] = queue.target .. ':' .. part
  end
  expect_type(queue.target, kind == 's' and 'stream' or 'list')
  queue.has_cancelled = expect_type(queue.cancelled, 'hash')
  if kind == 'l' then
    expect_type(queue.running, 'hash')
    expect_type(queue.dropped, 'hash')
  end
  ctx.queues[kind .. name] = queue
  return queue
end

-- Removes a job from the index; `where` is nil, or what the index must say if it is to be this job.
local function forget_job(ctx, queue, chain, locate_job)
  if locate_job and redis.call('HGET', ctx.shard.jobs, chain) ~= locate_job then return end
  redis.call('HDEL', ctx.shard.jobs, chain)
  if queue.has_cancelled ~= false then redis.call('HDEL', queue.cancelled, chain) end
  if ctx.tied then close_chain(ctx.shard, chain, '', 0) end
end

-- ---- a run and its journal

local function run_keys(id, state)
  return { id = id, task = id .. '!task', state = state, key = PREFIX .. 'instances-' .. id, events = PREFIX
    .. 'events-' .. id,
    seen = PREFIX .. 'seen-' .. id, timers = PREFIX .. 'timers-' .. id, pending = PREFIX .. 'effects:' .. id }
end

-- Whether this is a number of entries, or of ms, that every command accepts.
local function is_count(number)
  return type(number) == 'number' and number >= 0 and number <= 9007199254740991 and number % 1 == 0
end

-- Whether the state can be encoded as JSON again, which has no infinite numbers.
local function is_encodable(value)
  if type(value) == 'number' then return value - value == 0 end
  if type(value) == 'table' then
    for _, part in pairs(value) do
      if not is_encodable(part) then return false end
    end
  end
  return true
end

-- Reads a run's state; nil if there is none, false if it is invalid. Any program may have written
-- it.
local function read_state(id)
  local text = redis.pcall('GET', PREFIX .. 'instances-' .. id)
  if not text then return nil end
  local sound, state = pcall(cjson.decode, text)
  if not sound or type(state) ~= 'table' or not is_count(state.cursor) or not is_count(state.length)
    or type(state.status) ~= 'string' or type(state.queue) ~= 'string' or type(state.workflow) ~= 'string'
    or type(state.head) ~= 'string' or not is_count(state.keep_ms) or type(state.attributes) ~= 'table'
    or not is_encodable(state) then
    return false
  end
  if type(state.opening) ~= 'string' then state.opening = nil end
  return state
end

-- Loads a run; nil if there is none, false if it is invalid. Fails if its queue cannot take its
-- task.
local function load_run(ctx, id)
  if ctx.runs[id] then return ctx.runs[id] end
  local state = read_state(id)
  if not state then return state end
  expect_once(TIMERS, 'zset')
  queue_keys(ctx, 's', state.queue)
  ctx.runs[id] = run_keys(id, state)
  return ctx.runs[id]
end

local function is_running(run) return run.state.status == 'running' end

-- Whether it has ended and its retention is over: then it is treated as absent.
local function is_expired(ctx, run)
  return not is_running(run) and not run.state.pending and (tonumber(run.state.closed_at)
    or 0) + run.state.keep_ms <= ctx.time
end

-- Marks a run to be saved at the end.
local function mark_changed(ctx, run)
  if not run.changed then ctx.changed[#ctx.changed + 1] = run end
  run.changed = true
end

-- Appends a journal entry; returns whether that was possible. It is not if another program has
-- written into the stream, or if the key is no stream.
local function append_entry(ctx, run, kind, entry)
  local position = run.state.length + 1
  local added = redis.pcall('XADD', run.events, int_text(position) .. '-0', 'data', entry, 'kind', kind)
  if type(added) == 'table' then
    if string.find(added.err, 'equal or smaller', 1, true) or string.find(added.err, 'WRONGTYPE', 1,
      true) then
      return false
    end
    error(added.err)
  end
  run.state.length = position
  mark_changed(ctx, run)
  return true
end

local function field(entry, name)
  for i = 1, #entry[2], 2 do
    if entry[2][i] == name then return entry[2][i + 1] end
  end
end

-- How many entries are read at a time: each may be large, and all of them are in the script's
-- memory.
local ENTRIES_PER_READ = 16

-- Passes entries between two positions to `consume`: position, kind, data; until it returns false.
local function each_entry(run, from, to, consume)
  repeat
    local found = redis.pcall('XRANGE', run.events, int_text(from), to, 'COUNT', ENTRIES_PER_READ)
    for _, entry in ipairs(found) do
      local position = tonumber(string.match(entry[1], '^%d+'))
      if consume(position, field(entry, 'kind'), field(entry, 'data') or 'null') == false then return end
      from = position + 1
    end
  until #found < ENTRIES_PER_READ
end

-- Returns the new events of a run: a list of { position, data }, up to the size limit of a task.
local function new_events(ctx, run)
  local out, bytes = {}, ctx.max_bytes
  each_entry(run, run.state.cursor + 1, '+', function(position, kind, data)
    if kind ~= 'commit' then
      out[#out + 1] = { position, data }
      bytes = bytes - #data
    end
    return #out < ctx.max_events and bytes > 0
  end)
  return out
end

-- ---- tasks

-- Whether the run has a task. Another program may have deleted its entry; then the index is wrong.
local function has_task(ctx, run)
  local at = redis.call('HGET', ctx.shard.jobs, run.task)
  local name, entry = string.match(at or '', '^s ([^ ]+) (.+)$')
  if not name then return at ~= false end
  -- Neither the index value nor the entry is necessarily valid.
  return #redis.pcall('XRANGE', target_key('s', name), entry, entry) > 0
end

-- Returns the entry as JSON for a task. An entry that is no JSON must not break the task's
-- envelope: its worker sees null. cjson rejects lone surrogates and deep nesting, which are valid
-- JSON.
local function as_json(entry)
  local sound, why = pcall(cjson.decode, entry)
  if sound or string.find(why, 'unicode escape', 1, true) or string.find(why, 'nested', 1, true) then
    return entry
  end
  return 'null'
end

-- Returns the JSON field that names the commit before a task. Any program may have written the
-- state.
local function last_commit(run)
  local id = run.state.last_commit
  if type(id) ~= 'string' or not string.match(id, '^[1-9]%d*$') then return '' end
  return ',"lastCommit":' .. id
end

-- Creates the run's task, if there are new events or this is the first task.
local function make_task(ctx, run)
  if run.state.pending then
    run.state.opening = run.opening or run.state.opening
    return
  end
  local opening = run.opening or run.state.opening
  -- Nothing was appended between what the last commit consumed and its own entry.
  if not opening and run.committed == run.state.length and run.committed == run.state.cursor + 1 then
    return
  end
  if has_task(ctx, run) then return end
  local news = {}
  for i, event in ipairs(new_events(ctx, run)) do
    news[i] = '{"position":' .. int_text(event[1]) .. ',"entry":' .. as_json(event[2]) .. '}'
  end
  if #news == 0 and not opening then return end
  local queue = queue_keys(ctx, 's', run.state.queue)
  queue.filled = true
  run.state.opening = nil
  put_job(queue, run.task, true, run.state.head .. (opening or '') .. ',"cursor":'
    .. int_text(run.state.cursor)
    .. last_commit(run) .. ',"news":[' .. table.concat(news, ',') .. ']}', 0, ctx.time)
end

-- Ends every script: creates tasks, saves runs and publishes wake-ups.
local function save_runs(ctx)
  for _, run in ipairs(ctx.changed) do
    if run.wants_task and is_running(run) then make_task(ctx, run) end
    redis.call('SET', run.key, cjson.encode(run.state))
  end
  for _, queue in pairs(ctx.queues) do
    -- The registry of queues must not fail the script here.
    if queue.filled then redis.pcall('SADD', PREFIX .. 'queues', queue.kind .. ' ' .. queue.name) end
    if ctx.sooner[queue.name] and queue.kind == 's' then queue.sooner = true end
    announce_earlier(queue, ctx.shard.channel)
  end
end

-- ---- timers: in `timers` as 'RUN SEQ LETTER', and in the run's own set as 'SEQ LETTER'

local function set_timer(ctx, run, seq, due, letter)
  -- The run's own set is a copy of `timers`, so damage there is no reason to fail.
  redis.pcall('ZADD', run.timers, due, seq .. ' ' .. letter)
  if not ctx.first then ctx.first = tonumber(redis.call('ZRANGE', TIMERS, 0, 0, 'WITHSCORES')[2] or 'inf') end
  redis.call('ZADD', TIMERS, due, run.id .. ' ' .. seq .. ' ' .. letter)
  if tonumber(due) < ctx.first then ctx.first, ctx.sooner[run.state.queue] = tonumber(due), true end
end

local function drop_timer(ctx, run, seq)
  local own, all = {}, {}
  for letter in string.gmatch(ctx.letters, '.') do
    own[#own + 1] = seq .. ' ' .. letter
    all[#all + 1] = run.id .. ' ' .. seq .. ' ' .. letter
  end
  if redis.pcall('ZREM', run.timers, unpack(own)) ~= 0 then redis.call('ZREM', TIMERS, unpack(all)) end
end

local function drop_timers_now(run)
  for _, timer in ipairs(redis.pcall('ZRANGE', run.timers, 0, -1)) do
    redis.call('ZREM', TIMERS, run.id .. ' ' .. timer)
  end
  redis.call('DEL', run.timers)
end

-- Adds an effect after all that are pending. Its keys have been checked by `expect_pending`.
local function add_pending_effect(ctx, run, effect)
  redis.call('RPUSH', run.pending, cmsgpack.pack(effect))
  if not run.state.pending then add_outbox(ctx.shard, 'e ' .. run.id) end
  run.state.pending = true
  mark_changed(ctx, run)
end

local function expect_pending(ctx, id)
  expect_once(ctx.shard.errands, 'zset')
  expect_once(PREFIX .. 'effects:' .. id, 'list')
end

-- Drops all timers of a run. Very many are dropped later; those that come due meanwhile are
-- ignored.
local function drop_timers(ctx, run)
  local count = redis.pcall('ZCARD', run.timers)
  if not run.state.pending and (type(count) ~= 'number' or count <= MAX_TIMERS) then
    return drop_timers_now(run)
  end
  run.state.dropping = true
  add_pending_effect(ctx, run, { 'alarms' })
end

-- ---- deliveries

-- A delivery has run, kind, entry and, if it has them, id and seq. Its run is loaded before the
-- first write.

-- Returns 'yes', 'again', 'missing', 'damaged' (nothing written), or the status of an ended run.
local function deliver(ctx, delivery)
  local run = load_run(ctx, delivery.run)
  if not run then return run == nil and 'missing' or 'damaged' end
  if delivery.id then
    local seen = redis.pcall('ZSCORE', run.seen, delivery.id)
    if seen then return type(seen) == 'string' and 'again' or 'damaged' end
  end
  if not is_running(run) then return run.state.status end
  -- XADD first: a server without memory refuses it, and then nothing has changed.
  if not append_entry(ctx, run, delivery.kind, with_time(delivery.entry, ctx.time)) then return 'damaged' end
  if delivery.id then redis.call('ZADD', run.seen, int_text(ctx.time), delivery.id) end
  if delivery.seq then drop_timer(ctx, run, delivery.seq) end
  run.wants_task = true
  return 'yes'
end

-- Removes ids of deliveries that are older than `age`, except the latest `most`.
local function forget_seen(ctx, run, age, most)
  local all = redis.pcall('ZCARD', run.seen)
  if type(all) ~= 'number' or all <= most then return end
  local old = redis.call('ZCOUNT', run.seen, '-inf', '(' .. int_text(ctx.time - age))
  if old > 0 then redis.call('ZREMRANGEBYRANK', run.seen, 0, math.min(old, all - most) - 1) end
end

-- ---- the jobs of a run

-- Ids of a run's jobs are the run's id and a part: an activity has a number, its task and commands
-- a word.
local function run_part(id) return string.match(id, '^(.+)!([a-z0-9]+)$') end

-- Whether the job drives a run, so that nobody may remove it.
local function is_run_job(id)
  local run_id, part = run_part(id)
  return run_id and not string.match(part, '^%d+$')
end

-- Returns the delivery for a removed activity; nil if the job is none. `event` has the JSON before and
-- after the number. Call it before the first write, because it loads the run.
local function removal_event(ctx, id, event)
  local run_id, seq = run_part(id)
  if not run_id or not string.match(seq, '^%d+$') then return nil end
  load_run(ctx, run_id)
  return { run = run_id, kind = 'answer', seq = seq,
    entry = '{"at":' .. int_text(ctx.time) .. ',"event":' .. event[1] .. seq .. event[2] .. '}' }
end

-- Locates a job: its queue with what `remove_job_at` needs, the letter and the reference of the
-- index.
local function locate_job(ctx, id)
  local chain = chain_of(id)
  local letter, name, reference = string.match(redis.call('HGET', ctx.shard.jobs, chain) or '',
    '^(%a) ([^ ]+) ?(.*)$')
  if not letter then return nil end
  local kind = (letter == 'l' or letter == 'L' or letter == 'D') and 'l' or 's'
  local queue = setmetatable({ id = id, chain = chain }, { __index = queue_keys(ctx, kind, name) })
  queue.lock = queue.target .. ':lock:' .. id
  if letter == 'b' then queue.waits = PREFIX .. 'waits:' .. string.match(reference, '[^ ]*$') end
  expect_location(queue, ctx.shard, letter)
  return queue, letter, reference
end

-- Returns the id of a chain's current job; in a stream its envelope has it.
local function current_job_id(queue, letter, reference)
  if letter ~= 's' then return queue.id end
  local found = redis.call('XRANGE', queue.target, reference, reference)[1]
  return found and id_in(field(found, 'data') or '') or queue.id
end

local function cancel_job(ctx, id)
  local queue, letter, reference = locate_job(ctx, id)
  if not queue or letter == 'd' or letter == 'D' then return end
  if letter == 's' and pending_entry(queue.target, queue.group, reference) or letter == 'l'
    and redis.call('EXISTS', queue.lock) == 1 then
    redis.call('HSET', queue.cancelled, queue.chain, 1)
    queue_keys(ctx, queue.kind, queue.name).has_cancelled = true
    notify(ctx.shard.channel, 'cancel ' .. current_job_id(queue, letter, reference))
  elseif remove_job_at(queue, ctx.shard, letter, reference) then
    forget_job(ctx, queue, queue.chain)
  end
end

-- ---- effects

-- An effect is a list, also where it is stored: a word and
--   job: kind ('s' or 'l'), queue, id, due, envelope     cancel: id      alarm: seq, due, letter
--   record: chain, record, ms for which it is kept       drop: seq       alarms: drop all
--   attributes: their number, then name and value of each
local EFFECT_READERS = {
  job = function(ctx, args)
    local effect = { queue = queue_keys(ctx, args[2], args[3]), id = args[4], due = args[5],
      envelope = args[6] }
    if effect.due ~= '' then expect_once(effect.queue.scheduled, 'zset') end
    function effect.act()
      local chain = chain_of(effect.id)
      if redis.call('HEXISTS', ctx.shard.jobs, chain) == 1 or redis.call('EXISTS', PREFIX .. 'job:'
        .. chain) == 1 then
        return
      end
      put_job(effect.queue, chain, true, effect.envelope, due_at(effect.due, ctx.time), ctx.time)
      effect.queue.filled = true
    end
    return effect
  end,
  cancel = function(ctx, args)
    local id = args[2]
    -- Checks the keys that it is going to change.
    locate_job(ctx, id)
    return { act = function() cancel_job(ctx, id) end }
  end,
  alarm = function(ctx, args)
    local seq, due, letter = args[2], args[3], args[4]
    expect_once(TIMERS, 'zset')
    return { act = function(run) set_timer(ctx, run, seq, int_text(due_at(due, ctx.time)), letter) end }
  end,
  drop = function(ctx, args)
    local seq = args[2]
    return { act = function(run) drop_timer(ctx, run, seq) end }
  end,
  record = function(ctx, args)
    local chain, record, keep = args[2], args[3], args[4]
    return { act = function()
      redis.call('SET', PREFIX .. 'job:' .. chain, record, 'PX', keep)
      notify(ctx.shard.channel, 'finished ' .. chain)
    end }
  end,
  attributes = function(_, args)
    local new = {}
    for i = 3, 1 + 2 * tonumber(args[2]), 2 do new[args[i]] = args[i + 1] end
    return { act = function(run)
      for name, value in pairs(new) do run.state.attributes[name] = value end
    end }
  end,
  -- Returns 'more' if some are left.
  alarms = function()
    return { act = function(run)
      local some = redis.pcall('ZRANGE', run.timers, 0, MAX_TIMERS - 1)
      for _, timer in ipairs(some) do
        redis.call('ZREM', TIMERS, run.id .. ' ' .. timer)
        redis.call('ZREM', run.timers, timer)
      end
      if #some == MAX_TIMERS then return 'more' end
      redis.call('DEL', run.timers)
    end }
  end,
}

-- Reads `items`, or the staging id `staged` and the `count` of staged effects.
local function read_effects(ctx, id, args)
  local effects = {}
  if args.staged then
    expect_pending(ctx, id)
    effects.staged = PREFIX .. 'staged:' .. args.staged
    expect_type(effects.staged, 'list')
    -- A server that lost some of them may have received the rest since.
    effects.lost = redis.call('LLEN', effects.staged) ~= args.count
    return effects
  end
  for i, item in ipairs(args.items) do effects[i] = EFFECT_READERS[item[1]](ctx, item) end
  return effects
end

local function apply_effects(ctx, run, effects)
  if effects.staged then
    redis.call('RENAME', effects.staged, run.pending)
    redis.call('PERSIST', run.pending)
    run.state.pending = true
    add_outbox(ctx.shard, 'e ' .. run.id)
    mark_changed(ctx, run)
  end
  for _, effect in ipairs(effects) do effect.act(run) end
end

-- ---- ends

-- Checks, before the first write, what `end_run` writes. `close` has status and, if there are any,
-- output, error and parent: the delivery to the parent run.
local function check_close(ctx, id, close)
  expect_pending(ctx, id)
  local run = load_run(ctx, id)
  if run then expect_once(ENDED .. ':' .. run.state.workflow, 'zset') end
  if close.parent then load_run(ctx, close.parent.run) end
  expect_once(ENDED, 'zset')
  expect_once(WORKFLOWS, 'set')
end

local function end_run(ctx, run, close)
  local state = run.state
  state.status, state.closed_at = close.status, ctx.time
  state.output, state.error = close.output or state.output, close.error or state.error
  drop_timers(ctx, run)
  redis.call('ZADD', ENDED, int_text(ctx.time + state.keep_ms), run.id)
  redis.call('ZADD', ENDED .. ':' .. state.workflow, int_text(ctx.time), run.id)
  redis.call('SADD', WORKFLOWS, state.workflow)
  notify(ctx.shard.channel, 'finished ' .. run.task)
  mark_changed(ctx, run)
  if close.parent then deliver(ctx, close.parent) end
end

-- Removes an ended run and all its keys. The type of an unreadable run is unknown, so all are
-- tried.
-- Returns how many runs were removed.
local function remove_run(ctx, id)
  local state = read_state(id)
  local run = state and run_keys(id, state)
  if run and (is_running(run) or state.pending) then return 0 end
  ctx.runs[id] = nil
  local about, types = run_keys(id), run and { run.state.workflow } or redis.call('SMEMBERS', WORKFLOWS)
  local was_there = redis.call('ZREM', ENDED, id)
  redis.call('ZREM', RUNS, id)
  for _, workflow in ipairs(types) do
    redis.pcall('ZREM', RUNS .. ':' .. workflow, id)
    redis.pcall('ZREM', ENDED .. ':' .. workflow, id)
    if redis.call('EXISTS', ENDED .. ':' .. workflow) == 0 then redis.call('SREM', WORKFLOWS, workflow) end
  end
  local key = run and type(state.key) == 'string' and PREFIX .. 'run-key:' .. state.workflow .. ':'
    .. state.key
  if key and redis.pcall('GET', key) == id then redis.call('DEL', key) end
  drop_timers_now(about)
  redis.call('UNLINK', about.key, about.events, about.seen, about.pending)
  return was_there
end
