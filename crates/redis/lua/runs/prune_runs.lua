-- Removes ended runs and all their keys: those whose retention is over, a bounded number, and the
-- given ones.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  one map: channel, context, limit, runs
-- Returns how many were removed, and the time; then per workflow: its name and its number of ended
-- runs.
local args = cmsgpack.unpack(ARGV[1])
local ctx = run_context(shard_context(args.channel), args.context)
expect_type(TIMERS, 'zset')
expect_type(ENDED, 'zset')
expect_type(RUNS, 'zset')
expect_type(WORKFLOWS, 'set')
local gone = redis.call('ZRANGEBYSCORE', ENDED, '-inf', int_text(ctx.time), 'LIMIT', 0, args.limit)
for _, id in ipairs(args.runs) do gone[#gone + 1] = id end
local out = { 0, ctx.time }
for _, id in ipairs(gone) do out[1] = out[1] + remove_run(ctx, id) end
for _, workflow in ipairs(redis.call('SMEMBERS', WORKFLOWS)) do
  local left = redis.pcall('ZCARD', ENDED .. ':' .. workflow)
  out[#out + 1] = workflow
  out[#out + 1] = type(left) == 'number' and left or 0
end
return out
