-- Appends events to journals, each atomically, and makes sure that each run has a task.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  channel, the ARGV of a run context, then deliveries
-- Returns for each: 'yes', 'again', 'missing', 'damaged', or the status of an ended run.
local ctx = run_context(shard_context(), 2)
local all, out = {}, {}
while ctx.has_more() do all[#all + 1] = read_delivery(ctx) end
for i, delivery in ipairs(all) do out[i] = deliver(ctx, delivery) end
save_runs(ctx)
return out
