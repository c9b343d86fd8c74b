-- Starts a run, unless one with its id, or another with its key, is there. One that is kept no longer makes way.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  channel, the ARGV of a world, then: run, its instance as JSON, what its first task says more, number of entries, then
--       per entry: kind, entry; then its key ('' if none), what to do if another run has it ('use_existing', 'reject',
--       'start_after_close'), effects
-- Returns 'created'; or 'existing' or 'rejected', and which run.
local w = world(home(), 2)
local id, state, opening, entries = w.read(), cjson.decode(w.read()), w.read(), {}
for i = 1, tonumber(w.read()) do entries[i] = { w.read(), w.read() } end
local key, conflict, effects = w.read(), w.read(), read_effects(w)
local over = {}

-- A run that is there; one whose time is over is not.
local function present(run)
  local r = load(w, run)
  if not r or not is_over(w, r) then return r end
  over[#over + 1] = run
end

if present(id) ~= nil then return { 'existing', id } end
key = key ~= '' and PREFIX .. 'run-key:' .. state.workflow .. ':' .. key
local holder = key and redis.call('GET', key)
local other = holder and present(holder)
if other ~= nil and holder then
  if conflict == 'reject' then return { 'rejected', holder } end
  if conflict == 'use_existing' or other == false or is_running(other) then return { 'existing', holder } end
end
local r = run_of(id, state)
queue(w, 's', state.queue)
expect(RUNS, 'zset')
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
for _, entry in ipairs(entries) do append(w, r, entry[1], entry[2]) end
take_effect(r, effects)
r.opening, r.wants_task = opening, true
change(w, r)
finish(w)
return { 'created' }
