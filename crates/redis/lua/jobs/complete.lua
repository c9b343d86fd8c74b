-- Completes a job from outside that is still where the index said, whatever its lease.
-- KEYS  the KEYS of a job location: jobs, waiters, notices, errands, keyed, target, scheduled,
--       blocked, dlq, cancelled, lock, running, dropped, record, waits; then queues, target,
--       scheduled and blocked of the queue where the chain continues, then the KEYS of a change
-- ARGV  the ARGV of a job location: channel, job id, the index value as read ('' for an untracked
--       job), location (its first letter), reference (entry or member), group; then the queue where
--       the chain continues ('' if it does not), then the ARGV of a change
-- Returns 'completed' or 'moved'; then the outbox entries; then, after '', the registrations of a
-- blocked job.
local queue, shard, location = locate()
queue.next = { kind = 's', name = ARGV[7], target = KEYS[17], scheduled = KEYS[18], blocked = KEYS[19],
  jobs = shard.jobs }
expect_type(KEYS[16], 'set')
if queue.next.name ~= '' then expect_queue(queue.next) end
-- Where the job itself may go: back to its queue, or to the dead letters.
expect_type(queue.scheduled, 'zset')
expect_type(queue.dlq, 'stream')
if not location.is_there() then return { 'moved' } end
local job, change = location.current(), (read_change(8, 20))
local taken, registered = remove_job_at(queue, shard, location.letter, location.reference)
if not taken then return { 'moved' } end
apply_change(queue, shard, change)
if location.indexed == '' then redis.call('HDEL', queue.cancelled, location.reference) end
publish_ended(shard)
if taken == 'running' then notify(shard.channel, 'lost ' .. job) end
if queue.next.name ~= '' then redis.call('SADD', KEYS[16], 's ' .. queue.next.name) end
announce_earlier(queue.next, shard.channel)
return location.answer('completed', registered)
