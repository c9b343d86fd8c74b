-- Ends a run without running its code, if its cursor is the one that the caller knows.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  one map: channel, context, run, cursor, effects, close
-- Returns 1 if it was ended, or with nothing written 0, or 2 if effects are pending that come
-- first; then the outbox entries.
local args = cmsgpack.unpack(ARGV[1])
local ctx = run_context(shard_context(args.channel), args.context)
local run, effects = load_run(ctx, args.run), read_effects(ctx, args.run, args.effects)
check_close(ctx, args.run, args.close)
if run and run.state.pending then return { 2 } end
if effects.lost then return { 0 } end
if not run or not is_running(run) or run.state.cursor ~= args.cursor then return { 0 } end
local queue, letter, reference = locate_job(ctx, run.task)
if queue then
  local taken = remove_job_at(queue, ctx.shard, letter, reference)
  if taken == 'running' then notify(ctx.shard.channel, 'lost ' .. run.task) end
  forget_job(ctx, queue, run.task)
end
apply_effects(ctx, run, effects)
end_run(ctx, run, args.close)
save_runs(ctx)
return with_outbox({ 1 }, ctx.shard)
