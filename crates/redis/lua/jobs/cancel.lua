-- Cancels a job that is still where the index said.
-- KEYS  the KEYS of a job location: jobs, waiters, notices, errands, keyed, target, scheduled,
--       blocked, dlq, cancelled, lock, running, dropped, record, waits
-- ARGV  one map: a job location (see `locate`), context, removed_event (for a removed activity: the
--       JSON before and after the number)
-- Returns 'removed', 'requested' or 'moved'; then the outbox entries; then, after '', the
-- registrations of a blocked job.
local args = cmsgpack.unpack(ARGV[1])
local queue, shard, location = locate(args)
local ctx = run_context(shard, args.context)
local event = removal_event(ctx, queue.chain, args.removed_event)
if not location.is_there() then return { 'moved' } end
if location.letter == 's' and pending_entry(queue.target, queue.group, location.reference)
  or location.letter == 'l' and redis.call('EXISTS', queue.lock) == 1 then
  redis.call('HSET', queue.cancelled, location.indexed and queue.chain or location.reference, 1)
  notify(shard.channel, 'cancel ' .. location.current())
  return { 'requested' }
end
local taken, registered = remove_job_at(queue, shard, location.letter, location.reference)
if not taken then return { 'moved' } end
redis.call('HDEL', shard.jobs, queue.chain)
close_chain(shard, queue.chain, '', 0)
if event then deliver(ctx, event) end
save_runs(ctx)
notify(shard.channel, 'finished ' .. queue.chain)
return location.answer('removed', registered)
