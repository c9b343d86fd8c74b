-- Starts a run, unless a run with its id or its key exists. A run whose retention is over is
-- replaced.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  one map: channel, context, run, its instance as JSON, task_fields (additional ones of its
--       first task), journal, effects and, if it has a key, key and the conflict policy
--       ('use_existing', 'reject', 'start_after_close'). The journal is `items`, each with kind and
--       entry, or the staging id `staged` and the `count` of staged entries
-- Returns 'created' and the outbox entries; 'lost' if staged data is gone; or 'existing' or
-- 'rejected', and that run.
local args = cmsgpack.unpack(ARGV[1])
local ctx = run_context(shard_context(args.channel), args.context)
local id, state, journal, expired = args.run, cjson.decode(args.instance), args.journal, {}
local staged = journal.staged and PREFIX .. 'staged:' .. journal.staged
local effects = read_effects(ctx, id, args.effects)
expect_once(TIMERS, 'zset')

-- Returns an existing run; one whose retention is over does not count.
local function present(run_id)
  local run = load_run(ctx, run_id)
  if not run or not is_expired(ctx, run) then return run end
  expired[#expired + 1] = run_id
end

if present(id) ~= nil then return { 'existing', id } end
local key = args.key and PREFIX .. 'run-key:' .. state.workflow .. ':' .. args.key
if key then expect_type(key, 'string') end
local holder = key and redis.call('GET', key)
local other = holder and present(holder)
if other ~= nil and holder then
  if args.conflict == 'reject' then return { 'rejected', holder } end
  if args.conflict == 'use_existing' or other == false or is_running(other) then
    return { 'existing', holder }
  end
end
if staged then expect_type(staged, 'stream') end
if effects.lost or staged and redis.call('XLEN', staged) ~= journal.count then
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
if staged then
  redis.call('RENAME', staged, run.events)
  redis.call('PERSIST', run.events)
  state.length = journal.count
end
for i, item in ipairs(journal.items or {}) do
  local is_new = i > state.cursor and item.kind ~= 'commit'
  append_entry(ctx, run, item.kind, is_new and with_time(item.entry, ctx.time) or item.entry)
end
apply_effects(ctx, run, effects)
run.opening, run.wants_task = args.task_fields, true
mark_changed(ctx, run)
save_runs(ctx)
return with_outbox({ 'created' }, ctx.shard)
