-- Starts a run, unless a run with its id or its key exists. A run whose retention is over is
-- replaced.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  channel, the ARGV of a run context, then: run, its instance as JSON, additional fields of
--       its first task, number of entries, then per entry: kind, entry (or 'staged', the mark under
--       which they were staged, and their number); then its key ('' if none), the conflict policy
--       ('use_existing', 'reject', 'start_after_close'), effects
-- Returns 'created' and the outbox entries; 'lost' if staged data is gone; or 'existing' or
-- 'rejected', and that run.
local ctx = run_context(shard_context(), 2)
local id, state, opening, entries = ctx.read(), cjson.decode(ctx.read()), ctx.read(), {}
local count = ctx.read()
if count == 'staged' then
  entries.staged, entries.count = PREFIX .. 'staged:' .. ctx.read(), tonumber(ctx.read())
end
for i = 1, tonumber(count) or 0 do entries[i] = { ctx.read(), ctx.read() } end
local key, conflict, effects = ctx.read(), ctx.read(), read_effects(ctx, id)
local expired = {}

-- Returns an existing run; one whose retention is over does not count.
local function present(run_id)
  local run = load_run(ctx, run_id)
  if not run or not is_expired(ctx, run) then return run end
  expired[#expired + 1] = run_id
end

if present(id) ~= nil then return { 'existing', id } end
key = key ~= '' and PREFIX .. 'run-key:' .. state.workflow .. ':' .. key
if key then expect_type(key, 'string') end
local holder = key and redis.call('GET', key)
local other = holder and present(holder)
if other ~= nil and holder then
  if conflict == 'reject' then return { 'rejected', holder } end
  if conflict == 'use_existing' or other == false or is_running(other) then return { 'existing', holder } end
end
if entries.staged then expect_type(entries.staged, 'stream') end
if effects.lost or entries.staged and redis.call('XLEN', entries.staged) ~= entries.count then
  return { 'lost' }
end
local run = run_keys(id, state)
queue_keys(ctx, 's', state.queue)
expect_type(RUNS, 'zset')
expect_type(RUNS .. ':' .. state.workflow, 'zset')
if #expired > 0 then
  expect_type(ENDED, 'zset')
  expect_type(WORKFLOWS, 'set')
  for _, run_id in ipairs(expired) do remove_run(ctx, run_id) end
end
state.started_at, state.length = ctx.time, 0
redis.call('ZADD', RUNS, int_text(ctx.time), id)
redis.call('ZADD', RUNS .. ':' .. state.workflow, int_text(ctx.time), id)
redis.call('DEL', run.events, run.seen, run.timers)
if key then redis.call('SET', key, id) end
if entries.staged then
  redis.call('RENAME', entries.staged, run.events)
  redis.call('PERSIST', run.events)
  state.length = entries.count
end
for i, entry in ipairs(entries) do
  local is_new = i > state.cursor and entry[1] ~= 'commit'
  append_entry(ctx, run, entry[1], is_new and with_time(entry[2], ctx.time) or entry[2])
end
apply_effects(ctx, run, effects)
run.opening, run.wants_task = opening, true
mark_changed(ctx, run)
save_runs(ctx)
return with_outbox({ 'created' }, ctx.shard)
