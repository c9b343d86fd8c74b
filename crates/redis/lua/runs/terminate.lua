-- Ends a run without running its code, if its cursor is the one that the caller knows.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  channel, the ARGV of a run context, then: run, cursor, effects, close
-- Returns 1 if it was ended, or with nothing written 0, or 2 if effects are pending that come
-- first; then the outbox entries.
local ctx = run_context(shard_context(), 2)
local id, cursor = ctx.read(), tonumber(ctx.read())
local run, effects, close_args = load_run(ctx, id), read_effects(ctx, id), read_close(ctx, id)
if run and run.state.pending then return { 2 } end
if effects.lost then return { 0 } end
if not run or not is_running(run) or run.state.cursor ~= cursor then return { 0 } end
local queue, letter, reference = locate_job(ctx, run.task)
if queue then
  local taken = remove_job_at(queue, ctx.shard, letter, reference)
  if taken == 'running' then notify(ctx.shard.channel, 'lost ' .. run.task) end
  forget_job(ctx, queue, run.task)
end
apply_effects(ctx, run, effects)
end_run(ctx, run, close_args)
save_runs(ctx)
return with_outbox({ 1 }, ctx.shard)
