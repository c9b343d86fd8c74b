-- Applies pending effects of a run in order: a bounded number and size, or one however large. After
-- the last one the run gets its task.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  one map: channel, context, run, limit, bytes
-- Returns 1 if there are more, else 0; then the outbox entries.
local args = cmsgpack.unpack(ARGV[1])
local ctx = run_context(shard_context(args.channel), args.context)
local id, effects, done = args.run, {}, 0
expect_pending(ctx, id)
local run = load_run(ctx, id)
if run == false then return { 0 } end
if not run or not run.state.pending then
  redis.call('UNLINK', run_keys(id).pending)
  redis.call('ZREM', ctx.shard.errands, 'e ' .. id)
  return { 0 }
end

local function read_staged(packed)
  local sound, effect = pcall(cmsgpack.unpack, packed)
  if not sound or type(effect) ~= 'table' or not EFFECT_READERS[effect[1]] then
    error('WRONGTYPE ' .. run.pending .. ' holds what is no effect instead of effects')
  end
  effects[#effects + 1] = EFFECT_READERS[effect[1]](ctx, effect)
  return #packed
end

read_bounded(args.limit, args.bytes, function(seen, step)
  return redis.call('LRANGE', run.pending, seen, seen + step - 1)
end, read_staged)
mark_changed(ctx, run)
for _, effect in ipairs(effects) do
  if effect.act(run) == 'more' then break end
  done = done + 1
end
redis.call('LTRIM', run.pending, done, -1)
local more = redis.call('EXISTS', run.pending)
if more == 1 then
  -- Other processes take over an outbox entry that is not extended.
  redis.call('ZADD', ctx.shard.errands, 'XX', int_text(ctx.time + GRACE), 'e ' .. id)
else
  redis.call('ZREM', ctx.shard.errands, 'e ' .. id)
  run.state.pending, run.state.dropping, run.wants_task = nil, nil, true
end
save_runs(ctx)
return with_outbox({ more }, ctx.shard)
