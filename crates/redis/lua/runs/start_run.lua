-- Starts a run, unless one with its id, or another with its key, is there. One that is kept no longer makes way.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  channel, the ARGV of a world, then: run, its instance as JSON, what its first task says more, number of entries, then
--       per entry: kind, entry (or 'staged', the mark under which they were staged, and their number); then its key ('' if none), what to do if another run has it ('use_existing', 'reject',
--       'start_after_close'), effects
-- Returns 'created' and the errands that are owed; 'lost' if what was staged is gone; or 'existing' or 'rejected', and which run.
local w = world(home(), 2)
local id, state, opening, entries = w.read(), cjson.decode(w.read()), w.read(), {}
local count = w.read()
if count == 'staged' then entries.staged, entries.count = PREFIX .. 'staged:' .. w.read(), tonumber(w.read()) end
for i = 1, tonumber(count) or 0 do entries[i] = { w.read(), w.read() } end
local key, conflict, effects = w.read(), w.read(), read_effects(w, id)
local over = {}

-- A run that is there; one whose time is over is not.
local function present(run)
  local r = load(w, run)
  if not r or not is_over(w, r) then return r end
  over[#over + 1] = run
end

if present(id) ~= nil then return { 'existing', id } end
key = key ~= '' and PREFIX .. 'run-key:' .. state.workflow .. ':' .. key
if key then expect(key, 'string') end
local holder = key and redis.call('GET', key)
local other = holder and present(holder)
if other ~= nil and holder then
  if conflict == 'reject' then return { 'rejected', holder } end
  if conflict == 'use_existing' or other == false or is_running(other) then return { 'existing', holder } end
end
if entries.staged then expect(entries.staged, 'stream') end
if effects.lost or entries.staged and redis.call('XLEN', entries.staged) ~= entries.count then return { 'lost' } end
local r = run_of(id, state)
queue(w, 's', state.queue)
expect(RUNS, 'zset')
expect(RUNS .. ':' .. state.workflow, 'zset')
if #over > 0 then
  expect(ENDED, 'zset')
  expect(WORKFLOWS, 'set')
  for _, run in ipairs(over) do remove(w, run) end
end
state.started_at, state.length = w.time, 0
redis.call('ZADD', RUNS, whole(w.time), id)
redis.call('ZADD', RUNS .. ':' .. state.workflow, whole(w.time), id)
redis.call('DEL', r.events, r.seen, r.alarms)
if key then redis.call('SET', key, id) end
if entries.staged then
  redis.call('RENAME', entries.staged, r.events)
  redis.call('PERSIST', r.events)
  state.length = entries.count
end
for i, entry in ipairs(entries) do
  local is_new = i > state.cursor and entry[1] ~= 'commit'
  append(w, r, entry[1], is_new and stamped(entry[2], w.time) or entry[2])
end
take_effect(w, r, effects)
r.opening, r.wants_task = opening, true
change(w, r)
finish(w)
return with_owed({ 'created' }, w.h)
