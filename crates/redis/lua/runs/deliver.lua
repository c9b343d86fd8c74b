-- Appends events to journals, each atomically, and makes sure that each run has a task.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  one map: channel, context, deliveries
-- Returns for each: 'yes', 'again', 'missing', 'damaged', or the status of an ended run.
local args, out = cmsgpack.unpack(ARGV[1]), {}
local ctx = run_context(shard_context(args.channel), args.context)
for _, delivery in ipairs(args.deliveries) do load_run(ctx, delivery.run) end
for i, delivery in ipairs(args.deliveries) do out[i] = deliver(ctx, delivery) end
save_runs(ctx)
return out
