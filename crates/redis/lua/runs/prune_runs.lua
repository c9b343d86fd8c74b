-- Removes ended runs and all their keys: those whose retention is over, a bounded number, and the
-- given ones.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  channel, the ARGV of a run context, then: limit, then runs
-- Returns how many were removed, and the time; then per workflow: its name and its number of ended
-- runs.
local ctx = run_context(shard_context(), 2)
expect_type(ENDED, 'zset')
expect_type(RUNS, 'zset')
expect_type(WORKFLOWS, 'set')
local gone = redis.call('ZRANGEBYSCORE', ENDED, '-inf', int_text(ctx.time), 'LIMIT', 0, tonumber(ctx.read()))
while ctx.has_more() do gone[#gone + 1] = ctx.read() end
local out = { 0, ctx.time }
for _, id in ipairs(gone) do out[1] = out[1] + remove_run(ctx, id) end
for _, workflow in ipairs(redis.call('SMEMBERS', WORKFLOWS)) do
  local left = redis.pcall('ZCARD', ENDED .. ':' .. workflow)
  out[#out + 1] = workflow
  out[#out + 1] = type(left) == 'number' and left or 0
end
return out
