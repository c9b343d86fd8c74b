-- Cancels a job that is still where the index said.
-- KEYS  the KEYS of a job location: jobs, waiters, notices, errands, keyed, target, scheduled,
--       blocked, dlq, cancelled, lock, running, dropped, record, waits
-- ARGV  the ARGV of a job location: channel, job id, the index value as read ('' for an untracked
--       job), location (its first letter), reference (entry or member), group; the ARGV of a run
--       context; the event for a removed activity: the JSON before and after the number
-- Returns 'removed', 'requested' or 'moved'; then the outbox entries; then, after '', the
-- registrations of a blocked job.
local queue, shard, location = locate()
local ctx = run_context(shard, 7)
local event = removal_event(ctx, queue.chain, { ctx.read(), ctx.read() })
if not location.is_there() then return { 'moved' } end
if location.letter == 's' and pending_entry(queue.target, queue.group, location.reference)
  or location.letter == 'l' and redis.call('EXISTS', queue.lock) == 1 then
  redis.call('HSET', queue.cancelled, location.indexed ~= '' and queue.chain or location.reference, 1)
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
