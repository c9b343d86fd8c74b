-- Completes a job from outside that is still where the index said, whatever its lease.
-- KEYS  the KEYS of a job location: jobs, waiters, notices, errands, keyed, target, scheduled,
--       blocked, dlq, cancelled, lock, running, dropped, record, waits; then queues, then those that
--       the change gives by number
-- ARGV  one map: a job location (see `locate`), and the change
-- Returns 'completed' or 'moved'; then the outbox entries; then, after '', the registrations of a
-- blocked job.
local args = cmsgpack.unpack(ARGV[1])
local queue, shard, location = locate(args)
expect_type(KEYS[16], 'set')
check_change(queue, shard, args.change)
if not location.is_there() then return { 'moved' } end
local job = location.current()
local taken, registered = remove_job_at(queue, shard, location.letter, location.reference)
if not taken then return { 'moved' } end
apply_change(queue, shard, args.change)
if not location.indexed then redis.call('HDEL', queue.cancelled, location.reference) end
publish_ended(shard)
if taken == 'running' then notify(shard.channel, 'lost ' .. job) end
register_next_queues(shard, KEYS[16])
return location.answer('completed', registered)
